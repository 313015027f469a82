"""Hard inputs in a bench: a kernel that is right for usual values may be wrong for others.

A softmax that does not subtract the maximum is right for normal values, and overflows for large ones. So a bench tries
the hard inputs of a check once for each entry and dtype, for some seconds at most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import NamedTuple

from cudalab.checks import characters
from cudalab.engine.check_plan import hard
from cudalab.engine.groups import Group
from cudalab.results import record
from cudalab.results.record import Case

SECONDS = 1.0  # for each entry
WHERE = "at hard inputs, "  # how the reason of such a row begins
BAD = (record.WRONG, record.ERROR)


class Found(NamedTuple):
    """What came of the hard inputs of a kernel."""

    bad: dict[str, Case]  # by entry
    note: str  # what was not tried


class HardInputs:
    """Tries the hard inputs of each kernel and dtype of a run once.

    `check(group, omit)` gives the rows of a group that is not timed, without the labels in `omit`.
    """

    def __init__(
        self, check: Callable[[Group, Sequence[str]], list[Case]], labels: Callable[[Group], list[str]]
    ) -> None:
        self._check, self._labels = check, labels
        self._found: dict[object, Found] = {}

    def judge(self, cases: Sequence[Case], group: Group) -> None:
        """Take the times of entries that are wrong or fail for hard inputs; their rows say for which."""
        right = [case for case in cases if case.backend in record.ENTRIES and case.status == record.OK]
        key = group.file, group.old, group.name, group.dtype.name, str((group.forms, group.kernel.parameters))
        if right and key not in self._found:
            self._found[key] = self._tried(group, {case.variant: case.label for case in right})
        for case in right:
            if bad := self._found[key].bad.get(case.variant):
                case.status, case.reason = bad.status, f"{WHERE}{bad.size}: {bad.reason}"
                case.parity, case.times = bad.parity, {}
            elif case is right[0] and (note := self._found[key].note):
                case.notes.append(note)

    def _tried(self, group: Group, own: dict[str, str]) -> Found:
        """`own`: by entry, the label of a row that is right so far."""
        groups, bad = hard(group), dict[str, Case]()
        start = perf_counter()
        for tried, one in enumerate(groups):
            if perf_counter() - start > SECONDS * len(own):
                return Found(bad, f"{len(groups) - tried} of {len(groups)} hard inputs were not tried, to save time")
            omit = [label for label in self._labels(one) if label not in own.values()]
            for case in self._check(one, omit):
                if case.status in BAD:
                    bad.setdefault(case.variant, case)
        return Found(bad, "" if groups else "; ".join(characters.not_tried(group.kernel)))
