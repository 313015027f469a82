"""Statistics of repeated times. All times are seconds; samples come in rounds and are never dropped."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, sqrt

import numpy as np

Rounds = Sequence[Sequence[float]]


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


def speedup(baseline: Rounds, other: Rounds) -> float:
    """How many times faster `other` is: the median over rounds of the ratio of that round's medians.

    Both were measured in the same rounds, so a drift of the machine's speed cancels in each ratio.
    """
    pairs = zip(baseline, other, strict=False)
    return float(np.median([np.median(b) / np.median(o) for b, o in pairs]))
