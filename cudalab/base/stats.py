"""Statistics of repeated times. All times are seconds; samples come in rounds and are never dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, exp, floor, inf, sqrt

import numpy as np

Rounds = Sequence[Sequence[float]]

RESAMPLES = 2000  # of the bootstrap: enough to know the ends of a 95 % interval to a few per cent of its width
FASTER, SAME, SLOWER, UNCLEAR = "FASTER", "SAME", "SLOWER", "UNCLEAR"
FEW = 10  # rounds: with fewer the interval is at least as wide as Student's
ONCE = 1e3  # the interval of one round is a factor of this either way; finite, since it is divided by and stored
# 97.5 % quantiles of Student's t, 1 to 8 degrees of freedom. Importing them from SciPy would slow `cudalab show` down
# (scipy.special 0.6 s, scipy.stats 3 s, on a shared core).
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306)
MIN_EFFECT = 0.02  # a smaller difference is not worth a claim, even if it is certain


def flat(rounds: Rounds) -> np.ndarray:
    """All samples, in the order of measurement."""
    return np.concatenate([np.asarray(r, np.float64) for r in rounds]) if len(rounds) else np.empty(0)


def median(rounds: Rounds) -> float:
    return float(np.median(flat(rounds)))


def median_interval(rounds: Rounds) -> tuple[float, float]:
    """A 95 % interval for the median that assumes no distribution: order statistics n/2 -+ 0.98 sqrt(n).

    This is the normal approximation of the binomial count of samples below the median (Conover, Practical
    Nonparametric Statistics, 3.2).
    """
    values = np.sort(flat(rounds))
    n = len(values)
    low = max(floor(n / 2 - 0.98 * sqrt(n)), 0)
    high = min(ceil(n / 2 + 0.98 * sqrt(n)), n - 1)
    return float(values[low]), float(values[high])


def relative_width(rounds: Rounds) -> float:
    """Width of the median's interval divided by the median: it decides how many digits are printed. One sample: inf."""
    if len(flat(rounds)) < 2:
        return inf
    low, high = median_interval(rounds)
    return (high - low) / median(rounds)


def spread(rounds: Rounds) -> float:
    """Relative width of the interval for the median of the rounds' own medians.

    It is wider than `relative_width` where rounds differ by more than the samples within a round.
    """
    return relative_width([[float(np.median(r))] for r in rounds])


VAGUE = 1.5  # a ratio whose interval spans this factor is marked as rough


@dataclass(frozen=True)
class Ratio:
    """How many times faster one variant is than another: a value with its 95 % interval."""

    value: float
    low: float
    high: float

    def verdict(self, min_effect: float = MIN_EFFECT) -> str:
        """FASTER or SLOWER if the whole interval is further than `min_effect` from 1; SAME if all of it is nearer.

        UNCLEAR if the interval lies in more than one of these regions.
        """
        if self.low > 1 + min_effect:
            return FASTER
        if self.high < 1 / (1 + min_effect):
            return SLOWER
        if 1 / (1 + min_effect) <= self.low and self.high <= 1 + min_effect:
            return SAME
        return UNCLEAR

    @property
    def vague(self) -> bool:
        """Whether the interval spans a factor of more than VAGUE: the value alone would mislead."""
        return self.high > VAGUE * self.low

    def over(self, factor: float) -> Ratio:
        """The ratio relative to a control that became `factor` times faster."""
        return Ratio(self.value / factor, self.low / factor, self.high / factor)


def speedup(baseline: Rounds, other: Rounds, seed: int = 0, paired: bool = True) -> Ratio:
    """How many times faster `other` is: the midmean over rounds of the ratio of that round's medians.

    Both were measured in the same rounds, so a drift of the machine's speed cancels in each ratio. The midmean is the
    mean of the middle half of the rounds. It ignores outliers; unlike a median it does not jump where times come in
    steps, as times of a few microseconds do. The interval is a percentile bootstrap over rounds, not over samples,
    because samples of one round are not independent (Efron and Tibshirani, An Introduction to the Bootstrap, 13.3).
    With `paired` False the rounds were not measured side by side: each side is resampled on its own, and the value is
    the ratio of the midmeans.

    With fewer than FEW rounds a bootstrap underestimates the spread. The interval is then at least as wide as Student's
    for the mean logarithm; with one round it is a factor of ONCE either way.
    """
    if not paired:
        return _unpaired(baseline, other, seed)
    pairs = min(len(baseline), len(other))
    return _bootstrap((_medians(baseline[:pairs]) / _medians(other[:pairs])).tobytes(), seed)


@lru_cache(maxsize=4096)  # tables, plots and sentences ask for the same ratios
def _bootstrap(ratios: bytes, seed: int) -> Ratio:
    """The midmean of float64 numbers, given as bytes, and its interval."""
    values = np.frombuffer(ratios)
    picks = np.random.default_rng(seed).integers(0, len(values), (RESAMPLES, len(values)))
    low, high = np.percentile(_midmean(values[picks]), [2.5, 97.5])
    return _at_least(Ratio(float(_midmean(values)), float(low), float(high)), values)


def _at_least(found: Ratio, *samples: np.ndarray) -> Ratio:
    """`found` with an interval at least as wide as Student's, if there are fewer than FEW of `samples`.

    Two samples were not measured side by side: their variances add up, with the smaller number of degrees of freedom.
    That interval is never too narrow (Welch's approximation has more degrees of freedom).
    """
    fewest = min(map(len, samples))
    if fewest >= FEW:
        return found
    if fewest < 2:
        return Ratio(found.value, found.value / ONCE, found.value * ONCE)
    error = sqrt(sum(float(np.var(np.log(s), ddof=1)) / len(s) for s in samples))
    factor = exp(STUDENT[fewest - 2] * error)
    return Ratio(found.value, min(found.low, found.value / factor), max(found.high, found.value * factor))


def _medians(rounds: Rounds) -> np.ndarray:
    """Each round's own median."""
    if len({len(r) for r in rounds}) == 1:
        return np.asarray(np.median(np.asarray(rounds, np.float64), axis=1))  # ten times as fast as one by one
    return np.array([np.median(r) for r in rounds])


def _midmean(values: np.ndarray) -> np.ndarray:
    """Mean of the middle half along the last axis. scipy.stats.trim_mean is slower and differs in the last bit."""
    n = values.shape[-1]
    return np.sort(values, axis=-1)[..., n // 4 : n - n // 4].mean(axis=-1)


def _unpaired(baseline: Rounds, other: Rounds, seed: int) -> Ratio:
    rng = np.random.default_rng(seed)

    def resampled(medians: np.ndarray) -> tuple[float, np.ndarray]:
        picks = rng.integers(0, len(medians), (RESAMPLES, len(medians)))
        return float(_midmean(medians)), _midmean(medians[picks])

    samples = _medians(baseline), _medians(other)
    (base, bases), (ours, others) = map(resampled, samples)
    low, high = np.percentile(bases / others, [2.5, 97.5])
    return _at_least(Ratio(base / ours, float(low), float(high)), *samples)


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
