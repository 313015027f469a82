"""Statistics of repeated times. All times are seconds; samples come in rounds and are never dropped.

A run is one or several worker processes, and each takes rounds of samples. The value of a time or of a ratio is the
mean over processes; its interval counts what differs between processes, the noise within each, and the step of the
clock. bench/METHOD.md, "Rounds, intervals, verdicts", has the formulas and their sources, bench/intervals.py the
simulations that show how often the intervals hold the truth.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, exp, floor, hypot, inf, log, pi, sqrt

import numpy as np

from cudalab.base import scatter
from cudalab.base.estimate import KNOWN, ONCE, Estimate, midmean, over_processes, student

Rounds = Sequence[Sequence[float]]

FASTER, SAME, SLOWER, UNCLEAR = "FASTER", "SAME", "SLOWER", "UNCLEAR"
MIN_EFFECT = 0.02  # a smaller difference is not worth a claim, even if it is certain
NOTHING = 1.5  # an interval that spans more than this factor, and more than the ratio itself, says nothing

# The standard deviation between processes of a time alone that is expected before a run shows it, a share of it and
# seconds: short times come in steps that change from process to process. `cudalab.base.scatter` has that of ratios.
LEVEL, LEVEL_SECONDS = 0.002, 80e-9

COARSEST = 0.5e-6  # no clock of the lab has a longer step: cudaEventElapsedTime's, as CUDA's documentation gives it

STATES = 0.03  # processes further apart than this share and STATES_SECONDS disagree: their code or memory differs
STATES_SECONDS = 0.3e-6


def flat(rounds: Rounds) -> np.ndarray:
    """All samples, in the order of measurement."""
    if len({len(r) for r in rounds}) == 1:
        return np.asarray(rounds, np.float64).ravel()  # several times as fast as round by round
    return np.concatenate([np.asarray(r, np.float64) for r in rounds]) if len(rounds) else np.empty(0)


def median(rounds: Rounds) -> float:
    return float(np.median(flat(rounds)))


def median_interval(rounds: Rounds) -> tuple[float, float]:
    """A 95 % interval for the median of independent samples that assumes no distribution.

    Order statistics n/2 -+ 0.98 sqrt(n), the normal approximation of the binomial count of samples below the median
    (Conover, Practical Nonparametric Statistics, 3.2). Even the extremes of fewer than six samples hold the median too
    seldom (of five in 94 %, of two in 50 %); the interval is then also as wide as Student's of the logarithm.
    """
    values = np.sort(flat(rounds))
    n = len(values)
    low = max(floor(n / 2 - 0.98 * sqrt(n)), 0)
    high = min(ceil(n / 2 + 0.98 * sqrt(n)), n - 1)
    if n >= 6:
        return float(values[low]), float(values[high])
    logs = np.log(values)
    reach = student(n - 1) * float(logs.std(ddof=1)) / sqrt(n) if n > 1 else log(ONCE)
    middle = float(np.median(values))
    return min(float(values[0]), middle * exp(-reach)), max(float(values[-1]), middle * exp(reach))


def relative_width(rounds: Rounds) -> float:
    """Width of the median's interval divided by the median. One sample: inf."""
    if len(flat(rounds)) < 2:
        return inf
    low, high = median_interval(rounds)
    return (high - low) / median(rounds)


def spread(rounds: Rounds) -> float:
    """Relative width of the interval for the median of the rounds' own medians, within one process.

    It is wider than `relative_width` where rounds differ by more than the samples within a round.
    """
    return relative_width([[float(np.median(r))] for r in rounds])


@dataclass(frozen=True)
class Ratio:
    """How many times faster one variant is than another: a value with its 95 % interval.

    The 90 % interval reaches from the value `inner` of the way to the ends of the other, in logarithms. `disturbed`:
    other programs kept the processors busy, so that the samples are not those of the two variants alone.
    """

    value: float
    low: float
    high: float
    inner: float = 1.0
    disturbed: bool = False

    def verdict(self, min_effect: float = MIN_EFFECT) -> str:
        """FASTER, SLOWER: the 95 % interval is further than `min_effect` from 1; SAME: the 90 % interval is nearer.

        So SAME is wrong in at most 5 % of cases in which the difference is larger (two one-sided tests: Schuirmann,
        Journal of Pharmacokinetics and Biopharmaceutics 15 (1987), 657). All else is UNCLEAR, and every ratio that
        says nothing.
        """
        if self.says_nothing:
            return UNCLEAR
        if found := self.direction(min_effect):
            return found
        low, high = (self.value * (end / self.value) ** self.inner for end in (self.low, self.high))
        return SAME if 1 / (1 + min_effect) <= low and high <= 1 + min_effect else UNCLEAR

    def direction(self, min_effect: float = MIN_EFFECT) -> str:
        """FASTER or SLOWER where the whole 95 % interval is further than `min_effect` from 1, however wide; else ""."""
        if self.low > 1 + min_effect:
            return FASTER
        return SLOWER if self.high < 1 / (1 + min_effect) else ""

    @property
    def says_nothing(self) -> bool:
        """Whether the interval spans more than a factor of NOTHING, and more than the ratio itself (2 for half or twice
        as fast), so that its nearer end shows less than half of the difference, or the other direction.

        A narrower one of a large ratio, such as 90 to 2,100 of 430, shows the direction though not the amount. One that
        was disturbed shows neither: threads that wait for each other under load make any ratio, in every round.
        The one definition for every table, bar, verdict and sentence of the lab.
        """
        return self.disturbed or self.high > max(NOTHING, self.value, 1 / self.value) * self.low

    def over(self, factor: float) -> Ratio:
        """Return the ratio relative to a control that became `factor` times faster."""
        return replace(self, value=self.value / factor, low=self.low / factor, high=self.high / factor)


@dataclass(frozen=True)
class Timing:
    """One variant's rounds of samples, of one or several processes.

    `processes` says how many of the rounds each process took (empty: one took all). `step` is the clock's, in seconds;
    0: the smallest difference between two samples, at most COARSEST. `known` says what committed runs show of such
    times, see `scatter.expected`; `states` what other rows of this run show, see `states_of`.
    """

    rounds: Rounds
    processes: Sequence[int] = ()
    step: float = 0.0
    known: str = ""
    states: float = 0.0

    @cached_property
    def median(self) -> float:
        """Of all samples."""
        return median(self.rounds)

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the median of a process that is one of many. It holds `median`."""
        found = over_processes(
            list(np.log(self.medians)), [midmean(np.log(_medians(rounds))) for rounds in self.parts], self.alone
        )
        reach = replace(found, bound=self._step / 2 / self.median).reach
        return min(self.median, exp(found.value - reach)), max(self.median, exp(found.value + reach))

    @property
    def width(self) -> float:
        """Width of the interval divided by the median: it decides how many digits are printed. One sample: inf."""
        if len(self.rounds) == 1 and len(self.rounds[0]) == 1:
            return inf
        low, high = self.interval
        return (high - low) / self.median

    @cached_property
    def disagree(self) -> bool:
        """Whether the processes differ by more than their noise and where an array happens to lie in memory.

        torch.compile, for one, falls into one of several states when it starts. No interval of a few processes says
        how often each state occurs.
        """
        if len(self.parts) < 2:
            return False
        low, high = min(self.medians), max(self.medians)
        beyond = high - low - STATES * low - STATES_SECONDS
        if beyond <= 0:
            return False
        ends = (midmean(np.log(_medians(self.parts[self.medians.index(end)]))) for end in (low, high))
        noise = [end.variance for end in ends]
        return not np.isfinite(noise).all() or beyond > 4 * high * sqrt(sum(noise))

    @cached_property
    def medians(self) -> list[float]:
        """Return the median of each process's samples."""
        return [median(part) for part in self.parts]

    @cached_property
    def parts(self) -> list[Rounds]:
        """The rounds of each process that took any."""
        return [part for part in self.by_process if part]

    @cached_property
    def by_process(self) -> list[Rounds]:
        """The rounds of each process, in the order of the run's processes. A process that failed has none."""
        if sum(self.processes) != len(self.rounds):
            return [self.rounds]
        ends = np.cumsum(self.processes)
        return [self.rounds[end - n : end] for n, end in zip(self.processes, ends, strict=True)]

    @cached_property
    def first(self) -> float:
        """The median of the first process's samples; of all, where it took none. Who is chosen by it is judged in the
        others: see `later`."""
        return median(self.by_process[0] or self.rounds)

    @cached_property
    def later(self) -> Timing:
        """The rounds of all processes but the first; all rounds, where no other took any."""
        counts = [0, *(len(part) for part in self.by_process[1:])]
        if not sum(counts):
            return self
        return replace(self, rounds=self.rounds[-sum(counts) :], processes=counts, step=self._step)

    def until(self, n: int) -> Timing:
        """Return the times of the first n processes."""
        counts = self.processes[:n]
        if not sum(counts):
            return self
        return replace(self, rounds=self.rounds[: sum(counts)], processes=counts, step=self._step)

    @property
    def beside(self) -> float:
        """The relative standard deviation between processes that is expected of a time relative to another's."""
        return hypot(scatter.expected(self.median, self.known), self.states)

    @property
    def alone(self) -> float:
        """The one that is expected of the time itself."""
        return hypot(LEVEL + LEVEL_SECONDS / self.median, self.states)

    @cached_property
    def levels(self) -> list[np.ndarray]:
        """Return the logarithm of each round's level, for every process of `by_process`."""
        return [np.log(_levels(part, self._step)) if part else np.empty(0) for part in self.by_process]

    @cached_property
    def estimate(self) -> Estimate:
        """Return the logarithm of the time, for a comparison with rounds that were not taken beside these."""
        levels = [midmean(part) for part in self.levels if len(part)]
        found = over_processes([level.value for level in levels], levels, self.alone)
        return replace(found, bound=self.rounding)

    @property
    def expected(self) -> Estimate:
        """How well an `estimate` of as many processes is known if they differ as expected. Its value is 0."""
        n = len(self.parts)
        return Estimate(0.0, self.alone**2 / n, KNOWN + n - 1)

    @cached_property
    def _step(self) -> float:
        """Samples are multiples of this."""
        if self.step:
            return self.step
        apart = np.diff(np.unique(flat(self.rounds)))
        return min(float(apart.min()), COARSEST) if len(apart) else 0.0

    @property
    def one_step(self) -> float:
        """Return by how much of itself the median jumps where samples come in steps."""
        return self._step / self.median

    @cached_property
    def rounding(self) -> float:
        """A bound on the relative error that the clock's step leaves in a mean of samples.

        Noise much wider than a step makes the mean exact: what is left is at most step / pi * exp(-2 pi^2 (s / step)^2)
        for normal noise of deviation s (Widrow and Kollar, Quantization Noise, 4). Samples on one or two multiples
        alone may be wrong by up to half a step: if a share p lies on the further one, the truth is between them, and
        the mean is off by at most |1/2 - p| = sqrt(1/4 - variance) steps.
        """
        if not self._step:
            return 0.0
        samples = flat(self.rounds)
        in_steps = np.clip((samples - np.median(samples)) / self._step, -1, 1)  # so that a spike is no noise
        variance = float(in_steps.var())
        left = max(sqrt(max(0.25 - variance, 0)), exp(-2 * pi**2 * max(variance - 1 / 12, 0)) / pi)
        return self._step * left / self.median


def speedup(base: Timing, other: Timing, paired: bool = True, elsewhere: bool = True) -> Ratio:
    """How many times faster `other` is than `base`.

    Paired, the rounds of both were taken side by side in the same processes, so a drift of the machine's speed cancels
    in the ratio of each round; processes that timed only one of them do not count. The value is the geometric mean over
    processes of the midmean (mean of the middle half) over rounds. A midmean ignores outliers; unlike a median it does
    not jump where times come in steps. Unpaired, each side has its own mean and its own interval.

    The interval also holds the ratio of the medians, which stand beside it in tables, where this is clearly outside
    (by more than MIN_EFFECT and the clock's steps): then rounds and samples disagree.

    With `elsewhere` False the interval of one process is that of this process alone. It says how well the process can
    tell two variants apart, not what another process would find.
    """
    found = side_by_side(base, other, elsewhere) if paired else None
    if found is None:
        return as_ratio(base.estimate - other.estimate)
    ratio, medians = as_ratio(found), base.median / other.median
    apart = max(ratio.low / medians, medians / ratio.high)  # above 1: the ratio of the medians is outside
    if apart > 1 + MIN_EFFECT + base.one_step + other.one_step:
        return replace(ratio, low=min(ratio.low, medians), high=max(ratio.high, medians))
    return ratio


def side_by_side(base: Timing, other: Timing, elsewhere: bool = True) -> Estimate | None:
    """The logarithm of the paired `speedup`; None if no process has timed both."""
    together = [(a, b) for a, b in zip(base.levels, other.levels, strict=False) if len(a) and len(b)]
    if len(base.levels) != len(other.levels) or not together:
        return None
    ratios = [midmean(a[: len(b)] - b[: len(a)]) for a, b in together]
    expected = hypot(base.beside, other.beside) if elsewhere else 0.0
    noisy = scatter.HOST in (base.known, other.known)
    found = over_processes([r.value for r in ratios], ratios, expected, noisy)
    return replace(found, bound=base.rounding + other.rounding)


def together(base: Timing, other: Timing) -> int:
    """How many processes have timed both."""
    return sum(bool(a and b) for a, b in zip(base.by_process, other.by_process, strict=False))


def states_of(taken: Timing, others: Iterable[Timing]) -> float:
    """The relative deviation between processes of those `others` of the same variant whose processes disagree; 0 where
    none does.

    Three processes may be in one state by chance. Only rows of the same class of time count: states that are 0.3 us
    apart at 6 us say nothing of a time of 128 us.
    """
    place = scatter.place(taken.median)
    torn = [o for o in others if o.disagree and scatter.place(o.median) == place]
    return sqrt(sum(float(np.var(np.log(o.medians), ddof=1)) for o in torn) / len(torn)) if torn else 0.0


def over_all(ratios: Sequence[Ratio]) -> Ratio:
    """The geometric mean of ratios that were measured apart: on a log scale their intervals add up in quadrature."""
    n, value = len(ratios), sum(log(r.value) for r in ratios)
    down = sqrt(sum(log(r.value / r.low) ** 2 for r in ratios))
    up = sqrt(sum(log(r.high / r.value) ** 2 for r in ratios))
    middle, low, high = (exp(x / n) for x in (value, value - down, value + up))
    return Ratio(middle, low, high, disturbed=any(r.disturbed for r in ratios))


def as_ratio(found: Estimate) -> Ratio:
    """The number whose logarithm was estimated, with its intervals."""
    reach = found.reach
    low, value, high = (exp(found.value + r) for r in (-reach, 0.0, reach))
    return Ratio(value, low, high, min(found.inner_reach / reach, 1.0) if reach else 1.0)


def judged_by_later(every: Ratio, base: Timing, other: Timing, paired: bool = True) -> Ratio:
    """The speed-up in all processes but the first, with the interval that it has if processes differ as in `every`, the
    ratio of all: wider by the root of how many times as many processes those are. At least one later process has timed
    both.

    Two processes alone say little of how far processes differ: Student's t of one degree of freedom is 12.7, and of two
    it is 4.3.
    """
    value = speedup(base.later, other.later, paired).value
    n, by_first = together(base, other), bool(base.by_process[0] and other.by_process[0])
    wider = sqrt(n / (n - by_first))
    low, high = (value * (end / every.value) ** wider for end in (every.low, every.high))
    return replace(every, value=value, low=low, high=high)


def _medians(rounds: Rounds) -> np.ndarray:
    """Each round's own median."""
    if len({len(r) for r in rounds}) == 1:
        return np.asarray(np.median(np.asarray(rounds, np.float64), axis=1))  # ten times as fast as one by one
    return np.array([np.median(r) for r in rounds])


def _levels(rounds: Rounds, step: float) -> np.ndarray:
    """Each round's mean, with samples far from the round's median moved to three deviations from it (Huber, 1964).

    A mean, unlike a median, averages the steps of the clock out.
    """
    middle = _medians(rounds)
    if len({len(r) for r in rounds}) == 1:
        apart = np.asarray(rounds, np.float64) - middle[:, None]
        reach = max(3 * 1.4826 * float(np.median(np.abs(apart))), step)
        return np.asarray(middle + np.clip(apart, -reach, reach).mean(axis=1))
    samples = [np.asarray(r, np.float64) - m for r, m in zip(rounds, middle, strict=True)]
    reach = max(3 * 1.4826 * float(np.median(np.abs(np.concatenate(samples)))), step)
    return middle + np.array([np.clip(s, -reach, reach).mean() for s in samples])


def bimodal(rounds: Rounds) -> bool:
    """Whether the samples fall into two separate groups, so that no single number describes them.

    The sorted samples are cut at the widest gap that leaves at least a fifth of them on each side. They are bimodal if
    the gap exceeds both 2 % of the median and four times the larger side's interquartile range.
    """
    values = np.sort(flat(rounds))
    if len(values) < 20:
        return False
    least = ceil(len(values) / 5)
    cut = int(np.argmax(np.diff(values)[least - 1 : len(values) - least])) + least
    sides = values[:cut], values[cut:]
    gap = values[cut] - values[cut - 1]
    spread = max(float(np.subtract(*np.percentile(side, [75, 25]))) for side in sides)
    return bool(gap > 0.02 * np.median(values) and gap > 4 * spread)
