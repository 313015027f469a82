"""Finds steps in a series of times, one a run: each that more than noise explains, and that lasts.

A step is looked for as the runs arrive: the last 5, 10 or 20 runs against those before them, back to the last step (the
first REFERENCE of these, so that a slow drift counts once it adds up). It is reported if three things hold:

1. Size: the trimmed means of the two sides differ by `min_effect` or more.
2. Noise: they differ by more than a t test with the error ALPHA allows. The deviation of a run comes from the median
   of the absolute deviations on both sides, which outliers do not raise. Since it is badly known from few runs, it is
   averaged with the deviation that is expected of such times, as if KNOWN further runs had shown that (Smyth,
   "Linear models and empirical Bayes methods", Stat. Appl. Genet. Mol. Biol. 3:3, 2004).
3. Place: so many of the last runs lie beyond the middle between the sides (MOST of them at least) that as many outliers
   would come together by chance with a probability below CHANCE, if runs lie there as often as before (a sign test).
   This tells a step from a few slow runs, and from code that falls into one of two states.

ruptures 1.1.10 (Truong et al., Signal Processing 167, 2020) was tried on the same noise. Its PELT with absolute
deviations and a penalty of 2.5 deviations times log(runs) finds as many steps with as few false alarms; with squares
it takes two slow runs for a step. But it must be told the deviation, which few runs do not show, and a series of 500
runs takes 2.5 s of processor time, one of 1,000 four times that; here 10,000 take 0.01 s. bench/steps.py counts what is
found of planted steps, and the false alarms; a test asserts them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from math import comb, exp, log1p
from statistics import NormalDist

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from cudalab.base.estimate import student

WINDOWS = (5, 10, 20)  # runs after a step; the first is how soon a step can be found
BEFORE = 5  # runs that a side before must have
REFERENCE = 40  # runs of that side at most
ALPHA = 6e-5  # of the t test, two-sided, for each window
CHANCE = 1e-4  # of the sign test
FAR = 0.75  # of the way to the new level: a run before that lies further counts as one that was there
MOST = 0.7  # share of the runs after that lie on the new side
TRIMMED = 1.15  # the variance of a mean without the outer fifths over that of a mean, of normal values
KNOWN = 4  # runs that the expected deviation counts for
MAD = 1.4826  # standard deviations in the median absolute deviation of a normal distribution
NORMAL = NormalDist().inv_cdf(1 - ALPHA / 2)
CHUNK = 1024  # windows that are looked at together


@dataclass(frozen=True)
class Step:
    """A change of level. `at`: the index of its first run; `seen`: that of the run after which it was found."""

    at: int
    seen: int
    ratio: float  # of the time after to the time before: 1.03 is 3 % slower


def steps(seconds: Sequence[float], expected: float, min_effect: float) -> list[Step]:
    """The steps of a series, oldest first.

    `seconds`: a positive time for each run, in order; `expected`: the relative standard deviation between runs that
    times like these have; `min_effect`: the smallest step that counts, 0.02 for 2 %.
    """
    logs = np.log(np.asarray(seconds, float))
    found: list[Step] = []
    start = 0
    while (step := _first(logs[start:], expected, min_effect)) is not None:
        found.append(Step(start + step.at, start + step.seen, step.ratio))
        start = found[-1].at
    edges = [0, *(step.at for step in found), len(logs)]
    levels = [float(_trimmed(logs[first:end][:REFERENCE])) for first, end in pairwise(edges)]
    return [replace(step, ratio=exp(now - was)) for step, (was, now) in zip(found, pairwise(levels), strict=True)]


def between(before: Sequence[float], after: Sequence[float], expected: float, min_effect: float) -> float | None:
    """The ratio of the times on two sides of a known run, if that is a step; None if not, or where runs are too few."""
    a, b = np.log(np.asarray(before, float))[-REFERENCE:], np.log(np.asarray(after, float))
    for width in WINDOWS:
        if len(a) >= BEFORE and len(b) >= width and _judged(a, b[None, :width], expected, min_effect)[0]:
            return exp(float(_trimmed(b[:width]) - _trimmed(a)))
    return None


def _first(logs: np.ndarray, expected: float, min_effect: float) -> Step | None:
    """The first step of a series, as it looks when it is found."""
    for end, width in _seen(logs, expected, min_effect):
        at = _place(logs, end, width)
        moved = float(_trimmed(logs[at:end]) - _trimmed(logs[:at][:REFERENCE]))
        if abs(moved) >= log1p(min_effect):
            return Step(at, end - 1, exp(moved))
    return None


def _seen(logs: np.ndarray, expected: float, min_effect: float) -> Iterator[tuple[int, int]]:
    """Where a step seems to be: the number of runs by then, and the window that shows it."""
    grown = REFERENCE + max(WINDOWS)
    for end in range(BEFORE + WINDOWS[0], min(grown, len(logs)) + 1):
        for width in WINDOWS:
            before = logs[: max(end - width, 0)][:REFERENCE]
            if (
                len(before) >= max(BEFORE, width // 2)
                and _judged(before, logs[None, end - width : end], expected, min_effect)[0]
            ):
                yield end, width
    for first in range(grown + 1, len(logs) + 1, CHUNK):  # the side before no longer grows
        last = min(first + CHUNK - 1, len(logs))
        hits = []
        for width in WINDOWS:
            windows = sliding_window_view(logs[first - width : last], width)
            flags = np.flatnonzero(_judged(logs[:REFERENCE], windows, expected, min_effect))
            hits += [(first + int(flag), width) for flag in flags]
        yield from sorted(hits)


def _judged(before: np.ndarray, windows: np.ndarray, expected: float, min_effect: float) -> np.ndarray:
    """For each window (a row of `windows`) whether it is a step from the runs `before`."""
    was = float(_trimmed(before))
    judged: np.ndarray = np.abs(_trimmed(windows) - was) >= log1p(min_effect)
    windows = windows[judged]
    if not len(windows):
        return judged
    n, m = len(before), windows.shape[1]
    moved = (_trimmed(windows) - was)[:, None]
    off = np.hstack([
        np.broadcast_to(np.abs(before - np.median(before)), (len(windows), n)),
        np.abs(windows - np.median(windows, axis=1, keepdims=True)),
    ])  # fmt: skip
    free = n + m - 2
    variance = (KNOWN * expected**2 + free * (MAD * np.median(off, axis=1)) ** 2) / (KNOWN + free)
    sure = np.abs(moved[:, 0]) > student(KNOWN + free, (), NORMAL) * np.sqrt(TRIMMED * variance * (1 / n + 1 / m))
    there = ((windows - was - moved / 2) * np.sign(moved) > 0).sum(axis=1)
    earlier = ((before - was - FAR * moved) * np.sign(moved) > 0).sum(axis=1)
    chances = [_together(int(k), m, (int(e) + 0.5) / (n + 1)) for k, e in zip(there, earlier, strict=True)]
    judged[judged] = sure & (there >= MOST * m) & (np.array(chances) < CHANCE)
    return judged


def _place(logs: np.ndarray, end: int, width: int) -> int:
    """The run at which a step that is seen in the last `width` runs before `end` began: the cut with the least sum of
    absolute deviations from the medians of its sides."""
    first, last = max(3, end - 2 * width), end - 3
    before = np.median(logs[: end - width][:REFERENCE])
    after = np.median(logs[end - width : end])
    gain = np.abs(logs[first:end] - before) - np.abs(logs[first:end] - after)
    sums = np.cumsum(gain[::-1])[::-1]  # of cutting at each run
    return first + int(np.argmax(sums[: last - first + 1]))


def _trimmed(values: np.ndarray) -> np.ndarray:
    """Return the mean without the smallest and largest fifth, over the last axis."""
    count = values.shape[-1]
    cut = count // 5
    return np.sort(values, axis=-1)[..., cut : count - cut].mean(axis=-1)


@cache
def _together(count: int, of: int, share: float) -> float:
    """The probability that so many `of` the runs or more lie where each lies with the probability `share`."""
    return sum(comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(count, of + 1))
