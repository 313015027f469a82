"""The file that `inspect -o` writes: the figures of each entry that a later version of the code is compared in."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from cudalab.base import files
from cudalab.base.errors import InputError, short
from cudalab.base.text import visible
from cudalab.results import bounds
from cudalab.results.json_file import INSPECTION
from cudalab.tools.inspect.finding import Inspected, Whole, wholes

FORMAT, VERSION = INSPECTION, 1
WRITE = "cudalab inspect KERNEL -o old.json"

Amount = Annotated[float, msgspec.Meta(ge=0, le=1e30)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry for one dtype, architecture and size; of several launches each, and then the whole entry.

    Only what adds up is known of such a whole entry: the other figures are those of its launches.
    """

    kernel: str
    entry: str
    dtype: str
    architecture: str
    size: str
    shape: tuple[Count, ...]
    source: str  # SHA-256 of the `.cu` and its headers
    registers: Count | None
    spills: Count | None  # bytes that a thread stores to and loads from local memory
    shared: Count | None  # bytes a block, static and dynamic
    warps: Count | None  # on an SM at once
    instructions: Amount  # an element
    predicted: Amount | None = None  # seconds; None: no card of this architecture was asked for
    card: str = ""  # of the prediction
    memory: Amount = 0.0  # bytes per second of the prediction; 0: there is none
    launch: str = ""  # such as "1 partial_sums", of an entry with several; "": the whole entry

    @property
    def of_entry(self) -> tuple[str, str, str, str, str]:
        return self.kernel, self.entry, self.dtype, self.architecture, "x".join(map(str, self.shape))

    @property
    def key(self) -> tuple[str, ...]:
        return (*self.of_entry, f"launch {self.launch}") if self.launch else self.of_entry


class Inspection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    format: str
    version: int
    nvcc: str  # its release
    rows: tuple[Row, ...]


def inspection_of(found: Sequence[Inspected], nvcc: str) -> Inspection:
    """The findings as they are kept."""
    return Inspection(FORMAT, VERSION, nvcc, tuple(map(_row, wholes(found))))


def _row(shown: Inspected | Whole) -> Row:
    if isinstance(shown, Whole):
        return msgspec.structs.replace(
            _row(shown.launches[0]), launch="", instructions=shown.instructions, predicted=shown.predicted,
            registers=None, spills=None, shared=None, warps=None,
        )  # fmt: skip
    row = Row(
        shown.kernel, shown.entry, shown.dtype, shown.architecture, shown.size, shown.shape, shown.digest,
        shown.resources.registers, shown.resources.spill_stores + shown.resources.spill_loads,
        shown.resources.shared + shown.traced.launch.shared, shown.occupancy.warps, shown.instructions,
        launch=shown.step,
    )  # fmt: skip
    if not shown.bounds or not shown.card:
        return row
    memory = shown.bounds.memory.rate
    return msgspec.structs.replace(row, predicted=shown.predicted, card=shown.card.name, memory=memory)


def save(found: Inspection, path: str | os.PathLike[str]) -> None:
    """Write the file whole or not at all."""
    files.write(path, msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")


def load(path: str | os.PathLike[str]) -> Inspection:
    """Read a file. Raises InputError that names it and says what is wrong with it."""
    name = visible(os.fspath(path))
    try:
        found = msgspec.json.decode(bounds.read(path), type=Inspection)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{name} is not a file of `cudalab inspect -o`: {error}; write one: {WRITE}") from None
    if (found.format, found.version) != (FORMAT, VERSION):
        got = f"{short(found.format)} version {found.version}"
        raise InputError(f"{name} is {got}, this cudalab reads {FORMAT!r} version {VERSION}; write one: {WRITE}")
    return found


def is_one(path: str | os.PathLike[str]) -> bool:
    """Whether a file says that it is of `inspect -o`; False also for one that cannot be read, and for a pipe."""
    try:
        if not Path(path).is_file():
            return False
        head = bounds.beginning(path)[:200]
    except (OSError, ValueError, EOFError, zlib.error):
        return False
    return f'"format": "{FORMAT}"'.encode() in head.replace(b'":"', b'": "')


def writable(path: str | os.PathLike[str]) -> None:
    """Raise InputError now if `save` would fail later, or would replace a file of another kind."""
    target = files.place(path)
    if target.exists() and target.stat().st_size:
        try:
            load(target)
        except InputError as error:
            raise InputError(f"will not replace {target}: {error}") from None
