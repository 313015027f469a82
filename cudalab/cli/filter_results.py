"""Select groups of a run by globs."""

from __future__ import annotations

import fnmatch

import msgspec

from cudalab.base.errors import unknown
from cudalab.base.globs import split
from cudalab.results.record import Results


def filtered(run: Results, kernels: str, sizes: str, dtypes: str) -> Results:
    """Keep the groups whose kernel, size and dtype match comma-separated globs; an empty text matches all.

    Raises NotFound for a glob that matches nothing.
    """
    groups = list(run.groups())
    wanted = tuple(map(split, (kernels, sizes, dtypes)))
    for i, what in enumerate(("kernel", "size", "dtype")):
        have = list(dict.fromkeys(group[i] for group in groups))
        for pattern in wanted[i]:
            if not any(_fits(name, (pattern,)) for name in have):
                raise unknown(f"{what} in these results", pattern, have)
    kept = {g for g in groups if all(_fits(name, globs) for name, globs in zip(g, wanted, strict=True))}
    if groups and not kept:
        raise unknown("group in these results", " ".join(filter(None, (kernels, sizes, dtypes))), map(" ".join, groups))
    return msgspec.structs.replace(run, cases=[case for case in run.cases if case.group in kept])


def _fits(name: str, globs: tuple[str, ...]) -> bool:
    return not globs or any(name == glob or fnmatch.fnmatchcase(name, glob) for glob in globs)
