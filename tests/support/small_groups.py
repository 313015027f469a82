"""Groups of a check: those of one kernel, and few that show whether a kernel is placed, launched and right."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest

from cudalab.checks import many_blocks
from cudalab.engine import plan
from cudalab.engine.check_plan import checks
from cudalab.engine.groups import Group
from cudalab.spec.kernel import Kernel

LARGEST = 1 << 12  # elements


def planned(kernel: Kernel, dtypes: str = "all", **how: int) -> list[Group]:
    """The groups of a check of this one kernel, which need not be in a file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "kernels_by_name", lambda names: {kernel.name: kernel})
        return list(checks([kernel.name], dtypes, **how))


def few(groups: Iterable[Group], largest: float = math.inf) -> list[Group]:
    """For each kernel and dtype the group of the largest shape, and for the first dtype one with arrays off alignment.

    Only awkward groups count, with at most `largest` elements.
    """
    chosen: dict[tuple[str, str, bool], Group] = {}
    for group in groups:
        if group.awkward and not group.values and 0 < math.prod(group.shape) <= largest:
            key = group.name, "" if group.offsets else group.dtype.name, bool(group.offsets)
            chosen[key] = max(chosen.get(key, group), group, key=lambda one: math.prod(one.shape))
    return list(chosen.values())


def small_groups(dtypes: str = "all") -> list[Group]:
    """Few groups of each of the lab's kernels, at small shapes.

    Sizes with many blocks are no small ones, and to look for them takes half a second for each kernel.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(many_blocks, "shapes", lambda *given: ({}, {}))
        return few(checks([], dtypes, sample=LARGEST), LARGEST)
