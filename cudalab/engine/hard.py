"""Hard inputs in a bench: a kernel that is right for usual values may be wrong for others.

A softmax that does not subtract the maximum is right for normal values, and overflows for large ones. So a bench tries
the hard inputs of a check once for each entry and dtype, for SECONDS at most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

from cudalab.checks import characters
from cudalab.engine.check_plan import hard
from cudalab.engine.groups import Group
from cudalab.results import record
from cudalab.results.record import Case

SECONDS = 1.0  # for each entry
WHERE = "at hard inputs, "  # how the reason of such a row begins
BAD = (record.WRONG, record.ERROR)


class HardInputs:
    """Tries the hard inputs of each kernel and dtype of a run once.

    `check(group, omit)` gives the rows of a group that is not timed, without the labels in `omit`.
    """

    def __init__(
        self, check: Callable[[Group, Sequence[str]], list[Case]], labels: Callable[[Group], list[str]]
    ) -> None:
        self._check, self._labels = check, labels
        self._found: dict[tuple[object, str], Case | None] = {}  # by kernel and entry, the first row that is bad
        self._notes: dict[object, str] = {}  # by kernel, what was not tried

    def judge(self, cases: Sequence[Case], group: Group) -> None:
        """Take the times of entries that are wrong or fail for hard inputs; their rows say for which."""
        right = [case for case in cases if case.backend in record.ENTRIES and case.status == record.OK]
        key = group.file, group.old, group.name, group.dtype.name, str((group.forms, group.kernel.parameters))
        if new := {case.variant: case.label for case in right if (key, case.variant) not in self._found}:
            bad, note = self._tried(group, new)
            self._found |= {(key, entry): bad.get(entry) for entry in new}
            self._notes[key] = self._notes.get(key) or note
        for case in right:
            if found := self._found[key, case.variant]:
                case.status, case.reason = found.status, f"{WHERE}{found.size}: {found.reason}"
                case.parity = found.parity
                case.lose_times()
            elif case is right[0] and (note := self._notes[key]):
                case.notes.append(note)

    def _tried(self, group: Group, own: dict[str, str]) -> tuple[dict[str, Case], str]:
        """By entry, the first row that is bad; and what was not tried. `own`: by entry, the label of its row."""
        groups, bad = hard(group), dict[str, Case]()
        start = perf_counter()
        for tried, one in enumerate(groups):
            if perf_counter() - start > SECONDS * len(own):
                return bad, f"{len(groups) - tried} of {len(groups)} hard inputs were not tried, to save time"
            omit = [label for label in self._labels(one) if label not in own.values()]
            for case in self._check(one, omit):
                if case.status in BAD:
                    bad.setdefault(case.variant, case)
        return bad, "" if groups else "; ".join(characters.not_tried(group.kernel))
