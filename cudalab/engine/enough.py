"""Which rows of a group are known well enough, so that no further process need time them.

Two rules, each for the cold ratio of a row to our fastest entry. The first looks at how wide the interval is, and at
its place only where the row is far off. The second goes on to the last process where the first processes leave the
verdict UNCLEAR, and all of them would make it clear if the ratio stayed where it is. It looks at the place of a ratio
once: to look after each process, until there is a verdict, would make more of them wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import hypot, log

from cudalab.base import scatter, stats
from cudalab.base.estimate import KNOWN, Estimate
from cudalab.base.stats import Timing
from cudalab.results import record
from cudalab.results.record import Case

HALF = 0.007  # of the interval of a ratio, without the clock's step, which no further process reduces
FAR = 1.1  # a row that is this many times as slow, or as fast, needs no such interval


def settled(cases: Sequence[Case], least: int, most: int, before: Sequence[Case] = ()) -> set[str]:
    """Labels of the rows that need no further process; every group has `least` and at `most` so many.

    `before`: rows of the run's earlier groups. Where a variant's processes disagree there, its interval is as wide here
    as the tables will show it, and more processes may not help.

    Without an entry the ratio is that to the fastest row. That row, or ours, is settled when all others are.
    """
    labels = {case.label for case in cases}
    timed = {case.label: taken for case in cases if (taken := _taken(case, before))}
    entries = [case.label for case in cases if case.label in timed and case.backend in record.ENTRIES and not case.old]
    if not timed:
        return labels
    base = min(entries or timed, key=lambda label: timed[label].first)
    open_ = {
        label for label, taken in timed.items() if label != base and not is_settled(timed[base], taken, least, most)
    }
    return labels - open_ - ({base} if open_ else set())


def is_settled(base: Timing, other: Timing, least: int, most: int) -> bool:
    """Whether the ratio needs no further process."""
    found = stats.side_by_side(base, other)
    if found is None or abs(found.value) - found.reach > log(FAR):
        return True
    then = Estimate(0.0, hypot(base.beside, other.beside) ** 2 / most, KNOWN + most - 1)  # if they differ as expected
    if found.reach - found.bound > HALF >= then.reach:
        return False
    return not _may_become_clear(base.until(least), other.until(least), most)


def _may_become_clear(base: Timing, other: Timing, most: int) -> bool:
    """Whether these processes leave the verdict UNCLEAR, and `most` that differ as they do would not."""
    found, n = stats.side_by_side(base, other), stats.together(base, other)
    if found is None or n < 2:
        return False
    # The first process has chosen what is compared, so one process fewer judges, here and at the end.
    then = replace(found, variance=found.variance * (n - 1) / (most - 1), freedom=found.freedom + most - n)
    now, end = (stats.judged_by_later(stats.as_ratio(one), base, other).verdict() for one in (found, then))
    return now == stats.UNCLEAR != end


def _taken(case: Case, before: Iterable[Case]) -> Timing | None:
    taken = case.timing("cold") if case.status in (record.OK, record.CEILING) else None
    same = (other for other in before if (other.kernel, other.label) == (case.kernel, case.label))
    others = (timing for other in same if (timing := other.timing("cold")))
    return taken and case.timing("cold", scatter.family(case.label), stats.states_of(taken, others))
