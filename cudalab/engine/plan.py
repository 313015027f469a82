"""The plan of a run: which kernels, sizes, dtypes and modes the words of its options mean."""

from __future__ import annotations

import fnmatch
import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from cudalab.base.errors import InputError, SpecError, unknown
from cudalab.base.globs import split, words_of
from cudalab.engine.groups import Group, beside
from cudalab.spec import find, sizes, unfilled
from cudalab.spec.dtype import DTYPES, DType, dtype
from cudalab.spec.kernel import Kernel

USUAL = ("launch", "graph", "api")
MODES = (*USUAL, "energy", "sustained")  # the last two are LOADED of `cudalab.timing.clock`


def kernels_by_name(names: Collection[str], bad: find.Bad | None = None) -> dict[str, Kernel]:
    """The kernels of these names or paths, each once, by their names in the results; no names: all of the lab's.

    Where two files have the same name, such as two versions in two folders, the folder's name is added. Raises
    SpecError for a spec that is not filled in; with `bad`, that is told of it, and the spec is left out.
    """
    chosen = {k.file: k for k in (find.chosen(names, bad) if names else find.kernels().values())}
    for path in list(chosen):
        try:
            unfilled.refuse(Path(path))
        except SpecError as error:
            if bad is None:
                raise
            bad(error)
            del chosen[path]
    stems = [k.name for k in chosen.values()]
    found: dict[str, Kernel] = {}
    for path, kernel in chosen.items():
        name = kernel.name if stems.count(kernel.name) == 1 else f"{Path(path).parent.name}/{kernel.name}"
        found[name if name not in found else path] = kernel
    return found


def groups(
    names: Collection[str], size_text: str, dtype_text: str, rivals: str = "", fit: bool = False
) -> list[Group]:  # fmt: skip
    """One group for every kernel, size and dtype, kernel by kernel; `fit` as in `cudalab.spec.sizes.parse`.

    `dtype_text` is a comma-separated list, "all", or empty for each kernel's first. Raises for a size or dtype that
    the kernels do not have.
    """
    found: list[Group] = []
    for name, kernel, dtypes in with_dtypes(names, dtype_text, rivals):
        for label, (shape, lengths, share) in _sizes(size_text, kernel, fit).items():
            kernel.accepts(shape, dict(lengths))
            one = kernel.at_lengths(dict(lengths), label, shape) if lengths else kernel
            found += [
                Group(one, label, shape, d, alias=name, rivals=split(rivals), scalars=lengths, fit=share)
                for d in dtypes
            ]
    return found


def _sizes(text: str, kernel: Kernel, fit: bool) -> dict[str, sizes.Size]:
    if text == sizes.USUAL:  # a spec may have neither of the two
        return {label: sizes.Size(shape) for label, shape in sizes.usual(kernel.sizes).items()}
    return sizes.parse(text, kernel.sizes, fit)


def with_parameters(groups: list[Group], parameters: Mapping[str, int]) -> list[Group]:
    """The groups with these values of their kernels' tunables, and the default of the others.

    Raises NotFound for a name that no kernel has, SpecError for a value that a kernel does not declare.
    """
    known = {name: None for group in groups for name in group.kernel.tunables}
    for name in parameters:
        if name not in known:
            have = " and ".join(dict.fromkeys(group.name for group in groups))
            if any(name in group.kernel.length_scalars for group in groups):
                size = next(iter(groups[0].kernel.sizes))
                raise InputError(f"{name} is a length, no tunable; write --size {size},{name}={parameters[name]}")
            raise unknown(f"tunable of {have}", name, known) if known else InputError(f"no tunables in {have}")
    chosen = [{n: v for n, v in parameters.items() if n in group.kernel.tunables} for group in groups]
    return [
        replace(group, kernel=group.kernel.with_parameters(own)) if own else group
        for group, own in zip(groups, chosen, strict=True)
    ]


def with_dtypes(names: Collection[str], text: str, rivals: str = "") -> Iterator[tuple[str, Kernel, list[DType]]]:
    """Name, kernel and its chosen dtypes, of each kernel that has any of them; warns of named ones that have none."""
    kernels = {name: beside(kernel, split(rivals)) for name, kernel in kernels_by_name(names).items()}
    wanted = _dtypes(text)
    left_out: list[str] = []
    for name, kernel in kernels.items():
        have = list(wanted) or kernel.dtypes[:1]
        lacking = [d for d in have if wanted.get(d) and d not in kernel.dtypes]
        if lacking and len(kernels) == 1:
            raise unknown(f"dtype of {name}", lacking[0], kernel.dtypes)
        if dtypes := [dtype(d) for d in have if d in kernel.dtypes]:
            yield name, kernel, dtypes
        else:
            left_out.append(name)
    if len(left_out) == len(kernels):
        raise InputError(f"none of {', '.join(kernels)} has dtype {text}")
    if left_out and names:
        warnings.warn(f"left out, without dtype {text}: {', '.join(left_out)}", stacklevel=2)


def _dtypes(text: str) -> dict[str, bool]:
    """The dtypes that the words of an option fit; whether one is named itself, and not only fitted by a glob or all."""
    found: dict[str, bool] = {}
    for word in words_of("dtypes", text):
        glob = "*" if word == "all" else word
        fitting = fnmatch.filter(DTYPES, glob) if any(c in glob for c in "*?[") else [dtype(word).name]
        if not fitting:
            raise unknown("dtype", word, DTYPES)
        found |= {name: name == word or found.get(name, False) for name in fitting}
    return found


def chosen_modes(text: str) -> tuple[str, ...]:
    """Modes from a comma-separated list; raises NotFound for another word, InputError where none is a usual time."""
    for mode in split(text):
        if mode not in MODES:
            raise unknown("mode", mode, MODES)
    if not split(text):
        raise InputError(f"no mode given; use {', '.join(MODES)}")
    if not set(split(text)) & set(USUAL):
        raise InputError(f"--modes {text} is measured beside usual times; write --modes launch,{text}")
    return split(text)


def modes_for(kind: str) -> tuple[str, ...]:
    """The modes that measure a kind of time; "": the main kind."""
    more = {"graph": "graph", "graph_cold": "graph", "api": "api"}.get(kind)
    return ("launch", more) if more else ("launch",)
