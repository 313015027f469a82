"""Launch parameters that `cudalab tune` chose: a file beside the `.cu`, with a choice by architecture, entry and dtype.

A choice is used on GPUs of its architecture as long as the code is unchanged; else it is ignored, and a note says why.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import os
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec

from cudalab.base import files
from cudalab.base.errors import InputError, SpecError, short, why
from cudalab.spec import cuda_source
from cudalab.spec.card import Card
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel

FORMAT, VERSION = "cudalab-tuned", 1
SUFFIX = ".tuned.json"


class Timed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Medians at one size, in seconds: with the spec's default, and with the chosen parameters."""

    size: str
    shape: tuple[int, ...]
    default: float
    chosen: float


class Choice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fastest parameters of one entry and dtype on one architecture: the default if nothing is faster."""

    architecture: str  # the compute capability, such as 9.0
    entry: str
    dtype: str
    parameters: dict[str, int]
    sources: dict[str, str]  # SHA-256: of the `.cu`, and of the text of the entry's launch function
    card: str  # this and the rest are for people: where, when and how well it was found
    driver: str = ""
    created: str = ""
    versions: dict[str, str] = {}
    kind: str = ""  # of time
    speedup: tuple[float, float, float] = (1.0, 1.0, 1.0)  # over the default: value, and its interval
    times: tuple[Timed, ...] = ()

    @property
    def key(self) -> tuple[str, str, str]:
        return self.architecture, self.entry, self.dtype


class Tuned(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    format: str
    version: int
    choices: tuple[Choice, ...]


def place(kernel: Kernel) -> Path:
    """Return the file beside the `.cu`: gelu.tuned.json."""
    return kernel.cu.with_suffix(SUFFIX)


def load(path: Path) -> Tuned:
    """Read a file of tuned parameters. Raises InputError that names the file and says what is wrong with it."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Tuned)
    except OSError as error:
        raise InputError(f"cannot read {path}: {why(error)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a file of `cudalab tune`: {error}") from None
    if (found.format, found.version) != (FORMAT, VERSION):
        got = f"{short(found.format)} version {found.version}"
        raise InputError(f"{path} is {got}, this cudalab reads {FORMAT!r} version {VERSION}")
    return found


def writable(path: str | os.PathLike[str]) -> Path:
    """`path`, if `save` can write there. Raises InputError if it cannot, or would replace a file of another kind."""
    try:
        target = files.place(path)
    except InputError as error:
        raise InputError(f"{error}; cudalab reads it only beside the .cu, so copy it there later") from None
    if target.exists() and target.stat().st_size:
        try:
            load(target)
        except InputError as error:
            raise InputError(f"will not replace {target}: {error}") from None
    return target


def save(path: Path, choices: Sequence[Choice]) -> None:
    """Put `choices` into the file. Those for other architectures, entries and dtypes stay. Raises OSError."""
    kept = load(path).choices if path.exists() and path.stat().st_size else ()
    every = {choice.key: choice for choice in (*kept, *choices)}
    tree = Tuned(FORMAT, VERSION, tuple(every[key] for key in sorted(every)))
    files.write(path, msgspec.json.format(msgspec.json.encode(tree), indent=1) + b"\n")


def sources(kernel: Kernel, entry: str) -> dict[str, str]:
    """Digests of what a choice depends on: the `.cu`, and the launch function of the entry."""
    found = {"cu": cuda_source.digest(kernel.cu), "launch": _launch_digest(kernel, entry)}
    return {**found, "options": " ".join(kernel.options)} if kernel.options else found


def _launch_digest(kernel: Kernel, entry: str) -> str:
    """Of the launch function and of what it may use: all of the spec but its record. Comments do not count."""
    try:
        nodes = ast.parse(Path(kernel.file).read_bytes()).body
        used = [ast.unparse(node) for node in nodes if not _assigns(node, kernel.name)]
        said = "\n".join([inspect.getsource(kernel.entries[entry]), *used])
    except (OSError, TypeError, ValueError, SyntaxError):
        return cuda_source.digest(Path(kernel.file))
    return hashlib.sha256(said.encode()).hexdigest()


def _assigns(node: ast.stmt, name: str) -> bool:
    return isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)


def for_variant(
    kernel: Kernel, entry: str, parameters: Mapping[str, int] | None, dtype: DType, card: Card | None
) -> tuple[Kernel, list[str]]:
    """The kernel as a row compiles and launches it on a card (None: on the CPU), and notes on what was ignored.

    `entry` may also be another backend's variant, which has no launch parameters. With `parameters` they are these.
    """
    if parameters is not None:
        return kernel.with_parameters(parameters), []
    if card is None or entry not in kernel.entries:
        return kernel, []
    return chosen(kernel, entry, dtype, card)


def for_call(kernel: Kernel, entry: str, dtype: DType, card: Card) -> Kernel:
    """The kernel as a call from Python launches it on a card. What is ignored becomes a warning, given once."""
    tuned, notes = chosen(kernel, entry, dtype, card)
    for note in notes:
        _warn(note)
    return tuned


@cache
def _warn(note: str) -> None:
    warnings.warn(note, stacklevel=4)


def chosen(kernel: Kernel, entry: str, dtype: DType, card: Card) -> tuple[Kernel, list[str]]:
    """The kernel with the parameters chosen for a card, or unchanged; and notes on what was ignored."""
    if len(kernel.configurations()) < 2:  # none, or those that were asked for
        return kernel, []
    path = place(kernel)
    try:
        there = path.stat()
    except OSError:
        return kernel, []  # it has not been tuned
    try:
        found = _read(path, there.st_mtime_ns, there.st_size)
        return _fitting(kernel, entry, dtype, card, found)
    except (InputError, SpecError) as error:
        return kernel, [f"tuned parameters are ignored: {error}"]


@cache
def _read(path: Path, changed: int, size: int) -> Tuned:
    return load(path)


def _fitting(kernel: Kernel, entry: str, dtype: DType, card: Card, found: Tuned) -> tuple[Kernel, list[str]]:
    choices = {c.architecture: c for c in found.choices if (c.entry, c.dtype) == (entry, dtype.name)}
    if not choices:
        return kernel, []
    choice, file = choices.get(card.architecture), place(kernel).name
    if choice is None:
        others = ", ".join(sorted(choices))
        here = card.architecture
        return kernel, [f"{file} is for compute capability {others}, not for {here}: run `cudalab tune` on this GPU"]
    if choice.sources != sources(kernel, entry):
        return kernel, [f"{file} is ignored: {entry} has changed since it was tuned: run `cudalab tune` again"]
    tuned = kernel.with_parameters(choice.parameters)
    return tuned, [] if card.name in (choice.card, "") else [f"its launch parameters were tuned on an {choice.card}"]
