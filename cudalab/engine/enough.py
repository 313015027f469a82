"""Which rows of a group are known well enough, so that no further process need time them.

The rule looks at how wide an interval is, and not at its middle: a run does not go on until it finds a difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

from cudalab.base import scatter, stats
from cudalab.base.stats import Timing
from cudalab.results import record
from cudalab.results.record import Case

HALF = 0.007  # of the interval of a ratio, without the clock's step, which no further process reduces


def settled(cases: Sequence[Case]) -> set[str]:
    """Labels of the rows whose cold ratio to the group's fastest entry is known to HALF.

    Without an entry: to the fastest row. That one is settled when all others are.
    """
    timed = {case.label: taken for case in cases if (taken := _taken(case))}
    entries = [case.label for case in cases if case.label in timed and case.backend in record.ENTRIES and not case.old]
    if not timed:
        return {case.label for case in cases}
    base = min(entries or timed, key=lambda label: timed[label].first)
    open_ = {label for label, taken in timed.items() if label != base and half(timed[base], taken) > HALF}
    return {case.label for case in cases} - open_ - ({base} if open_ else set())


def half(base: Timing, other: Timing) -> float:
    """Half of the interval of the logarithm of a ratio, without the clock's step."""
    found = stats.speedup(base, other)
    return log(found.high / found.low) / 2 - base.rounding - other.rounding


def _taken(case: Case) -> Timing | None:
    return (
        case.timing("cold", 0.0, scatter.family(case.backend)) if case.status in (record.OK, record.CEILING) else None
    )
