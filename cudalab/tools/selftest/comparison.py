"""Medians by the lab's clocks and rounds, and A/A runs: equal work as two variants must give equal times.

The two variants are made ready one after the other, on buffers of their own. The runs stay in one process; `twins.py`
compares equal work through several.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter

import numpy as np

from cudalab import timing
from cudalab.base import stats
from cudalab.base.errors import LaunchError
from cudalab.device.operands import Bound
from cudalab.device.protocol import Device
from cudalab.timing import rounds as measure
from cudalab.timing.clock import Clock
from cudalab.tools.selftest.check import Check, Outcome

KINDS = ("cold", "hot", "graph", "wall")  # of times that are compared; host times of calls are left out
JUDGED = ("cold", "wall")  # the kinds from which tables take speed-ups and verdicts
BUDGET = 0.5  # seconds of sampling for each variant of one comparison
LEAST, MOST = 3, 50  # repetitions of an A/A run
UNCLEAR_SHARE = 0.1  # of the comparisons may be UNCLEAR, and more by chance
CHANCE = 0.01  # that a machine with just that share fails
COVERAGE = 95  # per cent of the comparisons within the smallest difference, as in the lab's intervals
COARSEST = 0.1  # a machine that cannot resolve 10 % fails

Medians = dict[str, dict[str, float]]  # seconds by label, then by kind


def clocks(device: Device, bound: Bound) -> dict[str, Clock]:
    """The clocks that `bench` uses, for a piece of work."""
    found = timing.clocks(device, bound, ("launch", "graph"), [])
    return {kind: clock for kind, clock in found.items() if kind in KINDS}


def sampled(variants: Mapping[str, Mapping[str, Clock]], seed: int = 0) -> dict[str, dict[str, list[list[float]]]]:
    """Rounds of samples by label and kind, as `bench` takes them. Raises LaunchError if a variant fails."""
    taken = measure.take(variants, seed, BUDGET)
    for label, result in taken.items():
        if result.error:
            raise LaunchError(f"{label} {result.error}")
    return {label: result.rounds for label, result in taken.items()}


def medians(variants: Mapping[str, Mapping[str, Clock]]) -> Medians:
    """Median seconds by label and kind."""
    taken = sampled(variants)
    return {label: {kind: stats.median(r) for kind, r in rounds.items()} for label, rounds in taken.items()}


def deviation(ratio: stats.Ratio) -> float:
    """The distance from 1 to the far end of a ratio's interval, as a fraction."""
    return max(ratio.high, 1 / ratio.low) - 1


def strayed(ratios: Sequence[stats.Ratio]) -> float:
    """Return the `deviation` that COVERAGE % of the ratios stay within."""
    return float(np.percentile([deviation(r) for r in ratios], COVERAGE, method="higher"))


def by_chance(unclear: int, judged: int) -> bool:
    """Whether so many of the comparisons may be UNCLEAR (binomial test of UNCLEAR_SHARE, one-sided, level CHANCE)."""
    from scipy.stats import binom  # it takes seconds to import on a busy machine

    return bool(binom.sf(unclear - 1, judged, UNCLEAR_SHARE) >= CHANCE)


class Comparison:
    """Compares equal work with itself. `smallest` is how far the times came apart, at the worst footprint."""

    def __init__(self, device: Device, seconds: float) -> None:
        self.device, self.seconds = device, seconds
        self.smallest: float | None = None

    def check(self, name: str, make: Callable[[], Bound], share: float) -> Check:
        """An A/A check that takes `share` of the seconds; `make` makes the work ready, for each variant anew."""
        return Check(
            f"A/A {name}",
            f"no FASTER or SLOWER, and UNCLEAR in at most {100 * UNCLEAR_SHARE:g} % of comparisons, beyond what "
            f"chance explains",
            "a difference smaller than that between two runs of one variant is noise",
            lambda: self._equal(make, share * self.seconds),
        )

    def verdict(self) -> Check:
        """The check of `smallest`, which comes after the A/A checks."""
        return Check(
            "smallest difference",
            f"at most {100 * COARSEST:g} %",
            "a difference below it is noise of this machine",
            self._judge,
        )

    def _equal(self, make: Callable[[], Bound], seconds: float) -> Outcome:
        variants = {label: clocks(self.device, make()) for label in ("A", "A again")}
        end, ratios = perf_counter() + seconds, defaultdict[str, list[stats.Ratio]](list)
        for seed in range(MOST):
            if seed >= LEAST and perf_counter() > end:
                break
            first, second = sampled(variants, seed).values()
            for kind in first:
                one, other = stats.Timing(first[kind]), stats.Timing(second[kind])
                ratios[kind].append(stats.speedup(one, other, elsewhere=False))
        judged = [ratio for kind in JUDGED for ratio in ratios.get(kind, [])]
        if not judged:
            raise LaunchError("no clock of this device can be compared")
        within = strayed(judged)
        self.smallest = max(within, self.smallest or 0.0)
        counts = Counter(r.verdict() for r in judged)
        said = ", ".join(f"{n} {verdict}" for verdict, n in counts.most_common())
        others = (f"{kind} {100 * strayed(found):.2f} %" for kind, found in ratios.items() if kind not in JUDGED)
        more = ", ".join(others)
        claims = counts[stats.FASTER] + counts[stats.SLOWER]
        return Outcome(
            not claims and by_chance(counts[stats.UNCLEAR], len(judged)),
            f"{said}; {COVERAGE} % of {len(judged)} intervals lie within {100 * within:.2f} % of 1"
            + (f" (not judged: {more})" if more else ""),
        )

    def _judge(self) -> Outcome:
        if self.smallest is None:
            return Outcome(False, "no A/A run finished")
        text = f"{100 * self.smallest:.2f} %: {COVERAGE} % of the comparisons of equal work lie within it"
        return Outcome(self.smallest <= COARSEST, text)
