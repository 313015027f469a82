"""Groups that show whether a kernel is placed, launched and right, without a sweep."""

from __future__ import annotations

import math

from cudalab.engine.check_plan import checks
from cudalab.engine.groups import Group

LARGEST = 1 << 12  # elements


def small_groups(dtypes: str = "all") -> list[Group]:
    """Of each lab kernel in each dtype one group at a small shape; of the first dtype one with arrays off alignment."""
    chosen: dict[tuple[str, str, bool], Group] = {}
    for group in checks([], dtypes, sample=LARGEST):
        if group.awkward and not group.values and 0 < math.prod(group.shape) <= LARGEST:
            key = group.name, "" if group.offsets else group.dtype.name, bool(group.offsets)
            chosen[key] = max(chosen.get(key, group), group, key=lambda one: math.prod(one.shape))
    return list(chosen.values())
