"""Which rows of a group are known well enough, so that no further process need time them.

The rule looks at how wide an interval is, and at its place only where a row is far off: a run does not go on until it
finds a difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

from cudalab.base import scatter, stats
from cudalab.base.estimate import KNOWN, Estimate
from cudalab.base.stats import Timing
from cudalab.results import record
from cudalab.results.record import Case

HALF = 0.007  # of the interval of a ratio, without the clock's step, which no further process reduces
FAR = 1.1  # a row that is this many times as slow, or as fast, needs no such interval


def settled(cases: Sequence[Case], most: int) -> set[str]:
    """Labels of the rows that need no further process: their cold ratio to the group's fastest entry is known to HALF,
    or FAR from 1, or would not be known to HALF after `most` processes either.

    Without an entry: to the fastest row. That one is settled when all others are.
    """
    labels = {case.label for case in cases}
    timed = {case.label: taken for case in cases if (taken := _taken(case))}
    entries = [case.label for case in cases if case.label in timed and case.backend in record.ENTRIES and not case.old]
    if not timed:
        return labels
    base = min(entries or timed, key=lambda label: timed[label].first)
    if not _in_reach(timed[base], most):
        return labels
    open_ = {label for label, taken in timed.items() if label != base and not _known(timed[base], taken)}
    return labels - open_ - ({base} if open_ else set())


def _known(base: Timing, other: Timing) -> bool:
    ratio = stats.speedup(base, other)
    return half(base, other) <= HALF or ratio.low > FAR or ratio.high < 1 / FAR


def _in_reach(base: Timing, most: int) -> bool:
    """Whether so many processes tell a ratio of two such times to HALF, if they differ as expected."""
    return Estimate(0.0, 2 * base.beside**2 / most, KNOWN + most - 1).reach <= HALF


def half(base: Timing, other: Timing) -> float:
    """Return half of the interval of the logarithm of a ratio, without the clock's step."""
    found = stats.speedup(base, other)
    return log(found.high / found.low) / 2 - base.rounding - other.rounding


def _taken(case: Case) -> Timing | None:
    return (
        case.timing("cold", 0.0, scatter.family(case.backend)) if case.status in (record.OK, record.CEILING) else None
    )
