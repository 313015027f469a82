"""Statistics of repeated times. All times are seconds; samples come in rounds and are never dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, sqrt

import numpy as np

Rounds = Sequence[Sequence[float]]

RESAMPLES = 2000  # of the bootstrap: the ends of a 95 % interval are then known to a few per cent of its width
FASTER, SAME, SLOWER, UNCLEAR = "FASTER", "SAME", "SLOWER", "UNCLEAR"
MIN_EFFECT = 0.02  # a smaller difference is not worth a claim, however sure


def flat(rounds: Rounds) -> np.ndarray:
    """All samples in the order in which they were taken."""
    return np.concatenate([np.asarray(r, np.float64) for r in rounds]) if len(rounds) else np.empty(0)


def median(rounds: Rounds) -> float:
    return float(np.median(flat(rounds)))


def median_interval(rounds: Rounds) -> tuple[float, float]:
    """A 95 % interval for the median that assumes no distribution: order statistics n/2 -+ 0.98 sqrt(n).

    That is the normal approximation of the binomial count of samples below the median (Conover, Practical
    Nonparametric Statistics, 3.2).
    """
    values = np.sort(flat(rounds))
    n = len(values)
    low = max(floor(n / 2 - 0.98 * sqrt(n)), 0)
    high = min(ceil(n / 2 + 0.98 * sqrt(n)), n - 1)
    return float(values[low]), float(values[high])


def relative_width(rounds: Rounds) -> float:
    """Width of the median's interval over the median: how many digits a printed number deserves."""
    low, high = median_interval(rounds)
    return (high - low) / median(rounds)


def spread(rounds: Rounds) -> float:
    """Relative width of the interval for the median of the rounds' own medians.

    Wider than `relative_width` where rounds differ by more than the samples in them do, so that a comparison of
    rounds would say less than the samples' number promises.
    """
    return relative_width([[float(np.median(r))] for r in rounds])


@dataclass(frozen=True)
class Ratio:
    """How many times faster one variant is than another: a value with its 95 % interval."""

    value: float
    low: float
    high: float

    def verdict(self, min_effect: float = MIN_EFFECT) -> str:
        """FASTER or SLOWER if the whole interval is, by more than `min_effect`; SAME if it lies within that of 1.

        UNCLEAR where the interval reaches from one of these regions into another.
        """
        if self.low > 1 + min_effect:
            return FASTER
        if self.high < 1 / (1 + min_effect):
            return SLOWER
        if 1 / (1 + min_effect) <= self.low and self.high <= 1 + min_effect:
            return SAME
        return UNCLEAR

    def over(self, factor: float) -> Ratio:
        """Relative to something that has itself become `factor` times faster."""
        return Ratio(self.value / factor, self.low / factor, self.high / factor)


def speedup(baseline: Rounds, other: Rounds, seed: int = 0, paired: bool = True) -> Ratio:
    """How many times faster `other` is: the midmean over rounds of the ratio of that round's medians.

    Both were measured in the same rounds, so a drift of the machine's speed cancels in each ratio. The midmean, of
    the middle half of the rounds, is as deaf to outliers as need be, and unlike a median it does not jump where
    times come in steps, as those of a few microseconds do. The interval is a percentile bootstrap over rounds, not
    over samples: samples of one round are not independent (Efron and Tibshirani, An Introduction to the
    Bootstrap, 13.3). Not `paired`: rounds that were not taken side by side are
    resampled each on their own, and the value is the ratio of their midmeans.
    """
    if not paired:
        return _unpaired(baseline, other, seed)
    pairs = min(len(baseline), len(other))
    ratios = _medians(baseline[:pairs]) / _medians(other[:pairs])
    picks = np.random.default_rng(seed).integers(0, pairs, (RESAMPLES, pairs))
    low, high = np.percentile(_midmean(ratios[picks]), [2.5, 97.5])
    return Ratio(float(_midmean(ratios)), float(low), float(high))


def _medians(rounds: Rounds) -> np.ndarray:
    """Each round's own median."""
    if len({len(r) for r in rounds}) == 1:
        return np.asarray(np.median(np.asarray(rounds, np.float64), axis=1))  # one by one takes ten times as long
    return np.array([np.median(r) for r in rounds])


def _midmean(values: np.ndarray) -> np.ndarray:
    """Mean of the middle half along the last axis."""
    n = values.shape[-1]
    return np.sort(values, axis=-1)[..., n // 4 : n - n // 4].mean(axis=-1)


def _unpaired(baseline: Rounds, other: Rounds, seed: int) -> Ratio:
    rng = np.random.default_rng(seed)

    def resampled(rounds: Rounds) -> tuple[float, np.ndarray]:
        medians = _medians(rounds)
        picks = rng.integers(0, len(medians), (RESAMPLES, len(medians)))
        return float(_midmean(medians)), _midmean(medians[picks])

    (base, bases), (ours, others) = resampled(baseline), resampled(other)
    low, high = np.percentile(bases / others, [2.5, 97.5])
    return Ratio(base / ours, float(low), float(high))


def bimodal(rounds: Rounds) -> bool:
    """Whether the samples fall into two separate groups, so that no single number stands for them.

    The sorted samples are cut at their widest gap; they are bimodal if each side has at least a fifth of them and
    the gap is both 2 % of the median and four times the larger side's interquartile range.
    """
    values = np.sort(flat(rounds))
    if len(values) < 20:
        return False
    cut = int(np.argmax(np.diff(values))) + 1
    sides = values[:cut], values[cut:]
    if min(map(len, sides)) < len(values) / 5:
        return False
    gap = values[cut] - values[cut - 1]
    spread = max(float(np.subtract(*np.percentile(side, [75, 25]))) for side in sides)
    return bool(gap > 0.02 * np.median(values) and gap > 4 * spread)
