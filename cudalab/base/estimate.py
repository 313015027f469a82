"""A number with its uncertainty: the mean over processes of the midmeans of their rounds, and intervals from them.

bench/METHOD.md, "Rounds, intervals, verdicts", puts it together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, hypot, inf, log, sqrt

import numpy as np

ONCE = 1e3  # the interval of one round is a factor of this either way; finite, since it is divided by and stored
# 97.5 % and 95 % quantiles of Student's t, 1 to 8 degrees of freedom. Importing them from SciPy would slow `cudalab
# show` down (scipy.special 0.6 s, scipy.stats 3 s, on a shared core).
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306)
STUDENT_90 = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860)
NORMAL, NORMAL_90 = 1.959964, 1.644854  # the same quantiles of the normal distribution
KNOWN = 2  # degrees of freedom of what is expected before a run shows it
FEW = 8  # values of a midmean
LOSS = 1.2  # variance of a midmean over that of a mean, for normal noise
BEYOND = 1.7  # processes whose deviation is this many times the expected one are judged by themselves alone


def student(freedom: float, table: Sequence[float] = STUDENT, z: float = NORMAL) -> float:
    """97.5 % quantile of Student's t, or that of another `table` and `z`.

    Above 8 degrees of freedom by the expansion 26.7.5 of Abramowitz and Stegun, Handbook of Mathematical Functions;
    below, a fraction counts as the whole number under it, which makes an interval wider.
    """
    if freedom < len(table) + 1:
        return table[max(floor(freedom), 1) - 1]
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


@dataclass(frozen=True)
class Estimate:
    """A logarithm, its variance with so many degrees of freedom, and a `bound` of an error that no mean reduces.

    `inflation`: how many times as large the variance is, judged by the autocorrelation of the series it comes from.
    """

    value: float
    variance: float
    freedom: float
    bound: float = 0.0
    inflation: float = 1.0

    @property
    def reach(self) -> float:
        """Return half of the 95 % interval."""
        return min(student(self.freedom) * sqrt(self.variance) + self.bound, log(ONCE))

    @property
    def inner_reach(self) -> float:
        """Return half of the 90 % interval."""
        return min(student(self.freedom, STUDENT_90, NORMAL_90) * sqrt(self.variance) + self.bound, log(ONCE))

    def __sub__(self, other: Estimate) -> Estimate:
        """Subtract an estimate that knows nothing of this one (Welch, Biometrika 34, 28; Satterthwaite)."""
        parts = (self.variance, self.freedom), (other.variance, other.freedom)
        total = self.variance + other.variance
        weights = sum(v**2 / f for v, f in parts)
        freedom = total**2 / weights if weights else inf
        return Estimate(self.value - other.value, total, freedom, self.bound + other.bound)


def over_processes(
    values: Sequence[float], within: Sequence[Estimate], expected: float, noisy: bool = False
) -> Estimate:
    """The mean of the processes' values.

    With several processes the variance between them is moderated by what is expected, as in Smyth, Statistical
    Applications in Genetics and Molecular Biology 3 (2004), article 3: (d0 s0^2 + d s^2) / (d0 + d), with d0 + d
    degrees of freedom. If the processes differ by more than BEYOND times the expected deviation, the expectation does
    not hold, and the interval is at least Student's of the values alone. The noise within the processes is a lower
    bound of what is found; `noisy`: from three processes on it is part of what is expected instead. With one process d
    is 0, so the interval is wide: what is expected is all that is known of the others; `expected` 0 asks for the
    interval of this process alone.
    """
    n, mean = len(values), float(np.mean(values))
    noise = float(np.mean([w.variance for w in within]))
    if n == 1:
        here = Estimate(mean, noise * within[0].inflation, within[0].freedom)
        if not expected:
            return here
        scatter = student(here.freedom) * sqrt(here.variance)
        reach = min(hypot(scatter, student(KNOWN) * expected), log(ONCE))
        return Estimate(mean, (reach / student(KNOWN)) ** 2, KNOWN)
    found = float(np.var(values, ddof=1))
    if noisy and n > 2 and np.isfinite(noise):
        expected = hypot(expected, sqrt(noise))
    elif np.isfinite(noise):
        found = max(found, noise)
    moderated = Estimate(mean, (KNOWN * expected**2 + (n - 1) * found) / (KNOWN + n - 1) / n, KNOWN + n - 1)
    alone = Estimate(mean, found / n, n - 1)
    return alone if found > (BEYOND * expected) ** 2 and alone.reach > moderated.reach else moderated


def midmean(values: np.ndarray) -> Estimate:
    """Mean of the middle half of a series, with the variance of a trimmed mean; infinite for a single value.

    The variance is that of Tukey and McLaughlin, Sankhya A 25 (1963), 331, from winsorized values. Of fewer than FEW
    values that leaves too few; the variance is then that of a mean, increased by what a midmean loses. A series whose
    neighbours are alike has fewer independent values: if the autocorrelation r of lag 1 (Marriott and Pope, Biometrika
    41 (1954), 390, for its bias) is beyond chance, `inflation` is (1 + r) / (1 - r).
    """
    n = len(values)
    cut = n // 4
    ordered = np.sort(values)
    mean = float(ordered[cut : n - cut].mean())
    if n < 2:
        return Estimate(mean, inf, 1)
    if n < FEW:
        return Estimate(mean, LOSS * float(values.var(ddof=1)) / n, n - 1)
    kept = np.clip(values, ordered[cut], ordered[n - cut - 1])
    variance = float(kept.var(ddof=1)) / ((1 - 2 * cut / n) ** 2 * n)
    return Estimate(mean, variance, n - 2 * cut - 1, inflation=_inflation(kept - kept.mean()))


def _inflation(values: np.ndarray) -> float:
    """By how much autocorrelation increases the variance of the mean of a series, which is given without its mean."""
    n, squares = len(values), float((values**2).sum())
    r = float((values[1:] * values[:-1]).sum()) / squares if squares else 0.0
    if r < 2 / sqrt(n):
        return 1.0
    r = min(r + (1 + 4 * r) / n, 0.95)
    return (1 + r) / (1 - r)
