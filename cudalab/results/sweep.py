"""Evaluates a sweep of sizes: where one variant overtakes another, and where bandwidth dominates the launch cost.

Nothing is measured here. Sizes are counted in elements of the first input, times are seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import prod

import numpy as np

from cudalab.base import stats
from cudalab.base.memo import unchanging
from cudalab.base.stats import FASTER, MIN_EFFECT, SLOWER
from cudalab.results import record
from cudalab.results.record import Case, Results

LEAST_SIZES = 3  # for a fit of two numbers to say anything

Sweep = dict[int, dict[str, Case]]  # elements -> label -> case


@dataclass(frozen=True)
class Crossing:
    """Between `below` and `above` elements `faster` overtakes `slower`.

    `slower` is surely ahead at `below`, `faster` at `above`; sizes in between have no sure verdict.
    """

    kernel: str
    dtype: str
    kind: str
    below: int
    above: int
    slower: str  # labels of cases
    faster: str


@dataclass(frozen=True)
class Knee:
    """One variant's times as t = overhead + bytes / rate (Hockney and Jesshope, Parallel Computers 2, 1.3.2)."""

    kernel: str
    dtype: str
    label: str
    kind: str
    overhead: float  # seconds at any size
    rate: float  # bytes per second, the limit at large sizes
    half: float  # bytes at which half of the rate is reached: overhead * rate


@unchanging
def crossings(run: Results, kind: str = "") -> list[Crossing]:
    """Pairs of variants that change places along the sweep. `kind` of time; "": the run's main one.

    Only FASTER and SLOWER count (`stats.Ratio.verdict`). A pair appears once for each time it changes places.
    """
    kind = kind or run.main_kind
    found = []
    for (kernel, dtype), sweep in _sweeps(run, kind).items():
        for one, other in combinations(_labels(sweep), 2):
            places = ((n, _ahead(run, cases, one, other, kind)) for n, cases in _both(sweep, one, other))
            sure = [(n, label) for n, label in places if label]
            for (below, was), (above, becomes) in pairwise(sure):
                if was != becomes:
                    found.append(Crossing(kernel, dtype, kind, below, above, slower=was, faster=becomes))
    return found


@unchanging
def half_performance(run: Results, kind: str = "") -> list[Knee]:
    """The fit for each variant that was timed at three sizes or more. `kind` of time; "": the run's main one.

    Least squares of the relative error with both numbers at least 0, so that every size has the same weight. A variant
    whose time does not grow with its bytes has no rate and is left out.
    """
    kind = kind or run.main_kind
    found = []
    for (kernel, dtype), sweep in _sweeps(run, kind).items():
        for label in dict.fromkeys(label for cases in sweep.values() for label in cases):
            cases = [cases[label] for cases in sweep.values() if label in cases]
            fit = _fit([(c.nbytes, stats.median(c.times[kind])) for c in cases if c.nbytes])
            if fit:
                found.append(Knee(kernel, dtype, label, kind, *fit, fit[0] * fit[1]))
    return found


def _sweeps(run: Results, kind: str) -> dict[tuple[str, str], Sweep]:
    """Timed cases by kernel and dtype, sizes in ascending order. Of two shapes with equally many elements the first."""
    found: dict[tuple[str, str], Sweep] = {}
    for case in sorted((c for c in run.cases if c.times.get(kind)), key=lambda c: prod(c.shape)):
        cases = found.setdefault((case.kernel, case.dtype), {}).setdefault(prod(case.shape), {})
        if all(other.size == case.size for other in cases.values()):
            cases.setdefault(case.label, case)
    return found


def _labels(sweep: Sweep) -> list[str]:
    """Labels of the variants; a copy is not one."""
    timed = (c for cases in sweep.values() for c in cases.values() if c.status != record.CEILING)
    return list(dict.fromkeys(case.label for case in timed))


def _both(sweep: Sweep, one: str, other: str) -> Iterator[tuple[int, dict[str, Case]]]:
    return ((n, cases) for n, cases in sweep.items() if one in cases and other in cases)


def _ahead(run: Results, cases: dict[str, Case], one: str, other: str, kind: str) -> str:
    """The label of the variant that is surely faster, or an empty text."""
    a, b = cases[one], cases[other]
    rough = stats.median(a.times[kind]) / stats.median(b.times[kind])
    if 1 / (1 + MIN_EFFECT / 2) < rough < 1 + MIN_EFFECT / 2:
        return ""  # too close for a sure verdict
    return {FASTER: other, SLOWER: one}.get(run.ratio(a, b, kind).verdict(), "")


def _fit(points: list[tuple[int, float]]) -> tuple[float, float] | None:
    """(overhead, rate) fitted to points of (bytes, seconds), or None."""
    if len({nbytes for nbytes, _ in points}) < LEAST_SIZES:
        return None
    nbytes, seconds = np.array(points, np.float64).T
    scale = float(seconds.min()), float(nbytes.max() / seconds.max())  # scales both unknowns to about 1
    rows = np.stack([scale[0] / seconds, nbytes / scale[1] / seconds], 1)
    squares, sums = rows.T @ rows, rows.sum(0)
    overhead, inverse = np.linalg.lstsq(rows, np.ones(len(points)), rcond=None)[0]
    if min(overhead, inverse) < 0:  # the best is at an edge, where one of both is 0
        alone = sums / np.diag(squares)
        overhead, inverse = (alone[0], 0.0) if alone[0] * sums[0] > alone[1] * sums[1] else (0.0, alone[1])
    return (float(overhead * scale[0]), float(scale[1] / inverse)) if inverse else None
