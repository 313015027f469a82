"""Select rows of results files by the options --kernel, --size, --dtype, --only and --skip."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from cudalab.base.errors import CudalabError, InputError, unknown
from cudalab.base.globs import fits, split
from cudalab.results.record import CEILING, Case, Results
from cudalab.spec import find, sizes

Fits = Callable[[Case], bool]


def filtered(
    runs: Sequence[Results], kernels: str = "", sizes: str = "", dtypes: str = "", only: str = "", skip: str = ""
) -> list[Results]:
    """Each run with the rows that fit comma-separated globs; an empty text fits all. Copies stay with their group.

    Raises NotFound for a glob that fits no row of any run, InputError if nothing is left of them.
    """
    every = [case for run in runs for case in run.cases]
    groups = [
        _one_of("kernel", split(kernels), every, _of_kernel, lambda case: case.kernel),
        _one_of("size", _words(sizes), every, _of_size, lambda case: case.size),
        _one_of("dtype", split(dtypes), every, _of_dtype, lambda case: case.dtype),
    ]
    rows = [case for case in every if case.status != CEILING]
    wanted = _one_of("variant", split(only), rows, _of_variant, lambda case: case.label)
    unwanted = _one_of("variant", split(skip), rows, _of_variant, lambda case: case.label) if split(skip) else None

    def takes(case: Case) -> bool:
        if not all(fitting(case) for fitting in groups):
            return False
        return case.status == CEILING or (wanted(case) and not (unwanted and unwanted(case)))

    found = [msgspec.structs.replace(run, cases=[case for case in run.cases if takes(case)]) for run in runs]
    if every and not any(case.status != CEILING or not rows for run in found for case in run.cases):
        asked = " ".join(filter(None, (kernels, sizes, dtypes, only, skip and f"without {skip}")))
        have = dict.fromkeys(" ".join(case.group) for case in every)
        raise InputError(f"no row of these results matches {asked}; the rows are {', '.join(have)}")
    return found


def _one_of(
    what: str, words: Sequence[str], cases: Sequence[Case], reading: Callable[[str], Fits], name: Callable[[Case], str]
) -> Fits:
    """Whether a row fits one of the words."""
    tests = {word: reading(word) for word in words if word != "all"}
    for word, fitting in tests.items():
        if cases and not any(map(fitting, cases)):
            raise unknown(f"{what} in these results", word, dict.fromkeys(map(name, cases)))
    if not tests or "all" in words:
        return lambda case: True
    return lambda case: any(fitting(case) for fitting in tests.values())


def _of_kernel(word: str) -> Fits:
    """By name or glob; the path of a spec or a folder stands for the names of its files."""
    names = {word}
    if find.is_path(word):
        path = Path(word)
        files: Iterable[Path] = path.glob("*.cu") if path.is_dir() else [path]
        names |= {file.stem for file in files}
    return lambda case: any(fnmatch.fnmatchcase(case.kernel, name) for name in names)


def _words(text: str) -> tuple[str, ...]:
    return sizes.words(text) if "=" in text else split(text)


def _of_size(word: str) -> Fits:
    """By name or glob, or by the shape and the lengths that a form of `cudalab.spec.sizes` stands for."""
    try:
        shapes = {size.shape for size in sizes.parse(word, {}).values()}
    except CudalabError:
        shapes = set()
    _, behind, lengths = word.partition(",")

    def fitting(case: Case) -> bool:
        name = case.size.replace(", ", ",")  # of a check
        return (
            name == word
            or fnmatch.fnmatchcase(name, word)
            or case.size == word
            or (tuple(case.shape) in shapes and name.endswith(behind + lengths))
        )

    return fitting


def _of_dtype(word: str) -> Fits:
    return lambda case: fnmatch.fnmatchcase(case.dtype, word)


def _of_variant(word: str) -> Fits:
    return lambda case: case.label == word or fits(case.label, (word,))
