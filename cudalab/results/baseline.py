"""`--baseline FILE`: a new run measures what the old run in FILE measured, unless options say otherwise."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import PurePath
from typing import Any

from cudalab.base.errors import InputError, short
from cudalab.results import file
from cudalab.results.comparable import Difference, NotComparable
from cudalab.results.record import Results
from cudalab.spec import find

ADOPTED = (
    "sizes",
    "dtypes",
    "only",
    "skip",
    "modes",
    "order",
    "flush",
    "parameters",
)  # options taken from the baseline


def adopted(old: Results, path: str, kernels: tuple[str, ...], options: dict[str, Any],
            given: Collection[str]) -> tuple[tuple[str, ...], dict[str, Any]]:  # fmt: skip
    """(kernels, options) to measure what the run `old` in `path` has: options that are not `given` are those of `old`.

    A run on a CPU may have only checked: its answers are compared then. Raises InputError for a run with nothing to
    compare, or whose options cannot be used.
    """
    if old.of_study:
        raise InputError(f"{path} is a study's run; run the study again with -o new.json, then: cudalab compare")
    if not old.timed or not any(case.times or case.parity for case in old.cases):
        what = "a run of `cudalab check`" if not old.timed else "without times and answers"
        raise InputError(f"{path} is {what}; write a baseline with `cudalab bench -o baseline.json`")
    names = old.options.get("kernels", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"cannot use {path} as baseline: its kernels are {short(names)}; name the kernels")
    kept = {name: old.options[name] for name in ADOPTED if name in old.options and name not in given}
    for name, value in kept.items():
        if type(value) is not type(options[name]):
            raise InputError(f"cannot use {path} as baseline: its {name} is {short(value)}; give --{name}")
    return kernels or find.of_results(names, path, "cudalab bench", "--baseline"), {**options, **kept}


def in_folder(path: str, kernels: Collection[str]) -> str:
    """The file of results that `path` is, or, in a folder, the one with the name of the kernel, or the only one.

    Raises InputError where a folder has several.
    """
    if not os.path.isdir(path):
        return path
    files = file.expanded([path])
    names = {PurePath(kernel).stem for kernel in kernels}
    fitting = [one for one in files if file.stem(one) in names] or files
    if len(fitting) > 1:
        raise InputError(f"{path} is a folder with {len(fitting)} results files; give one: --baseline {fitting[0]}")
    return fitting[0]


def refuse(found: Iterable[Difference], path: str) -> None:
    """Raise NotComparable if there are differences from the run in `path`; the message lists them."""
    lines = [f"    {difference}" for difference in found]
    if lines:
        advice = "measure and compare anyway with --force"
        raise NotComparable("\n".join([f"not comparable with {path}:", *lines, advice]))
