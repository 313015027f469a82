"""Which of the cases on a GPU repeat what others show."""

from __future__ import annotations

import pytest
from _pytest.mark.expression import Expression
from small_groups import few

from cudalab.tools.pytest.cases import Case, Wanted


@pytest.hookimpl(tryfirst=True)  # before `-m` deselects tests
def pytest_collection_modifyitems(items):
    """Mark as `sweep`, on a GPU, what repeats others at all but a benchmark's size and a few awkward groups.

    Those are a kernel's further dtypes, and libraries, which may compile anew for each shape and alignment: tens of
    seconds for a long row. `cudalab check` on that machine has them all.
    """
    cases = [(item, item.callspec.params.get("case")) for item in items if hasattr(item, "callspec")]
    on_gpu = [(item, case) for item, case in cases if isinstance(case, Case) and case.device == "cuda"]
    kept = {(group.name, group.dtype.name, group.size) for group in few(case.group for _, case in on_gpu)}
    for item, case in on_gpu:
        group = case.group
        entry_or_values = bool(case.variant.name or group.values)
        first = group.dtype.name == next(iter(group.kernel.dtypes)) and entry_or_values
        known = (group.name, group.dtype.name, group.size) in kept
        if not (first or known or (group.size in group.kernel.sizes and not group.awkward)):
            item.add_marker("sweep")


def pytest_pycollect_makeitem(collector, name, obj):
    """Leave out tests of cases on the CPU that `-m` deselects: to find a kernel's cases takes half a second."""
    wanted = getattr(obj, "cudalab", None)
    if not isinstance(wanted, Wanted) or wanted.device != "cpu":
        return None
    marks = {mark.name for mark in getattr(obj, "pytestmark", ())}
    chosen = Expression.compile(collector.config.option.markexpr or "not nothing")
    return None if chosen.evaluate(lambda mark, **_: mark in marks) else []
