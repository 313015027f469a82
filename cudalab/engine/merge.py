"""One row of what several processes found for a variant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median_low

import msgspec

from cudalab.results import record
from cudalab.results.record import Case, Parity

# From the worst on. A row that is bad in one process is bad: its times in the other processes are not kept.
WORST_FIRST = (record.WRONG, record.IMPOSSIBLE, record.ERROR, record.SKIPPED)


def merged(found: Sequence[Sequence[Case]], processes: int, needed: int) -> list[Case]:
    """The rows of a group, each from its rows in the processes that had it, in their order.

    `found` are the rows of each process, the first one's with every variant; `processes` is the number of the run's.
    Those beyond the `needed` ones only help: where one cannot time a variant, the times of the others are kept.
    """
    first, *others = found
    by_label = [{case.label: case for case in rows} for rows in others]
    return [_row([case, *(rows.get(case.label) for rows in by_label)], processes, needed) for case in first]


def _row(cases: Sequence[Case | None], processes: int, needed: int) -> Case:
    """One variant's row; None where a process left it out, since an earlier one could not time it."""
    cases = list(cases)
    failed = []
    for at, case in enumerate(cases[needed:], needed):
        if case and case.status in (record.ERROR, record.SKIPPED):
            failed.append(f"no times of process {at + 1}, which only helps: {case.reason}")
            cases[at] = None
    present = {number: case for number, case in enumerate(cases, 1) if case is not None}
    for status in WORST_FIRST:
        if bad := next((number for number, case in present.items() if case.status == status), 0):
            case = present[bad]  # after a bad row in the first process no other process tries the variant
            reason = f"in process {bad} of {processes}: {case.reason}" if bad > 1 else case.reason
            found = msgspec.structs.replace(case, reason=reason)
            found.lose_times()
            return found
    first, *others = present.values()
    if not others:
        return msgspec.structs.replace(first, notes=[*first.notes, *failed]) if failed else first
    return msgspec.structs.replace(
        first,
        parity=_worst(case.parity for case in present.values()),
        times=_joined(cases),
        processes={kind: _counts(cases, kind) for kind in _joined(cases)},
        costs=_costs(present.values()),
        condition=_condition(present.values()),
        quantities=_quantities(present.values()),
        notes=[*dict.fromkeys(note for case in present.values() for note in case.notes), *_lacking(cases), *failed],
    )


def _joined(cases: Sequence[Case | None]) -> dict[str, list[list[float]]]:
    """The rounds by kind of time, process after process."""
    kinds = dict.fromkeys(kind for case in cases if case for kind in case.times)
    return {kind: [samples for case in cases if case for samples in case.times.get(kind, [])] for kind in kinds}


def _counts(cases: Sequence[Case | None], kind: str) -> list[int]:
    """How many rounds each process took, 0 where it took none: so the rounds of two rows can be set side by side."""
    return [len(case.times.get(kind, [])) if case else 0 for case in cases]


def _lacking(cases: Sequence[Case | None]) -> list[str]:
    """Notes on kinds of time that some of the processes do not have; their notes say why."""
    found = []
    for kind in _joined(cases):
        have, timed = sum(n > 0 for n in _counts(cases, kind)), sum(bool(case and case.times) for case in cases)
        if kind in record.LOADED:  # further processes, which only help, have none
            continue
        if have < timed:  # the others have not timed the variant at all: it was known well enough
            found.append(f"the {kind} time is from {have} of {timed} processes")
    return found


def _worst(parities: Iterable[Parity | None]) -> Parity | None:
    """The comparison with the largest error, whole: its numbers belong to one output. First one that is not `close`."""
    found = [parity for parity in parities if parity]
    return max(found, key=lambda p: (not (p.ok or p.close), p.largest, p.rel_l2)) if found else None


def _costs(cases: Iterable[Case]) -> dict[str, float]:
    """What the first process spent, since the others find its caches; the time of sampling is that of all."""
    first, *others = cases
    if "timing" not in first.costs:
        return first.costs
    return first.costs | {"timing": sum(case.costs.get("timing", 0.0) for case in (first, *others))}


def _condition(cases: Iterable[Case]) -> dict[str, float | str]:
    """The first process's clocks and power, with what slowed the GPU down in any process."""
    first, *others = cases
    found = first.condition
    for name in ("throttled", record.UNDER_LOAD):
        if name == "throttled" and name not in first.condition:
            continue
        said = [str(case.condition.get(name, "")).split(", ") for case in (first, *others)]
        reasons = dict.fromkeys(reason for reasons in said for reason in reasons if reason)
        found = found | ({name: ", ".join(reasons)} if reasons or name in found else {})
    return found


def _quantities(cases: Iterable[Case]) -> dict[str, float]:
    """Return the median of each quantity over the processes, as one of them counted it."""
    first, *others = cases
    return {
        name: median_low([value, *(case.quantities[name] for case in others if name in case.quantities)])
        for name, value in first.quantities.items()
    }
