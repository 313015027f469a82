"""Bars and histograms in characters, below the table of a group.

The length of a bar is proportional to the variant's speed; where the interval says nothing there is no bar. Beside it
is a histogram of the samples of the main time, relative to the variant's own median. All histograms of a group have one
scale, so that noise can be compared; the scale is fine enough to show two groups of samples as two.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from cudalab.base import numbers, stats
from cudalab.base.text import visible
from cudalab.report import columns
from cudalab.results.record import Case, Results

LABEL, BAR, VALUE = 24, 40, 5  # largest widths in characters; the bar is shortened first
SHORTEST = 6  # bar; if there is less room, the histogram is left out
BINS = 25  # odd, so that the median is in the middle one
REACHES = (0.005, 0.01, 0.02, 0.05, 0.1)  # half widths of the scale, as shares of the median
WIDER = (0.2, 0.5)  # only if no samples are bimodal: so wide a scale might hide two groups
WITHIN = 0.95  # share of a group's samples that the scale must hold; the outermost bins count those beyond
# stats.bimodal needs a gap of 2 % of the median: 2.5 bins of the last of REACHES, so at least one bin is empty.


SELF = stats.Ratio(1.0, 1.0, 1.0)  # the baseline's speed-up over itself


@dataclass(frozen=True)
class Ink:
    """The characters to draw with."""

    full: str
    parts: str  # the last character of a bar, emptiest first
    levels: str  # a bin of a histogram, lowest first


BLOCKS = Ink("\u2588", "\u258f\u258e\u258d\u258c\u258b\u258a\u2589", "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588")
ASCII = Ink("#", "", ".:-=+*#@")


def lines(run: Results, cases: list[Case], width: int, ink: Ink = BLOCKS) -> list[str]:
    """For one group: a heading, then a line for each timed row, in the table's order; empty if nothing was timed."""
    kind, timed = run.main_kind, _timed(run, cases)
    if not timed:
        return []
    label, bar, both = _widths(timed, width)
    what, speeds = _speeds(run, timed, kind)
    reach = _reach(timed, kind)
    found = [_heading(what, kind, reach, label + 1 + bar + 1 + VALUE, both)]
    longest = max(speed.value for speed in speeds if not speed.says_nothing)
    for case, speed in zip(timed, speeds, strict=True):
        drawn = "" if speed.says_nothing else bars(speed.value / longest, bar, ink)
        text = "1" if speed == SELF else numbers.ratio(speed)
        line = f"{visible(columns.name(case))[:label]:{label}} {drawn:{bar}} {text:>{VALUE}}"
        found.append(f"{line}  |{histogram(deviations(case, kind), reach, ink)}|" if both else line)
    return found


def legend(run: Results, width: int) -> list[str]:
    """The line that explains the histograms, where a group has some."""
    if not any(_widths(timed, width)[2] for cases in run.groups().values() if (timed := _timed(run, cases))):
        return []
    kind = run.main_kind.replace("_", " ")
    return [f"|...|: samples of the {kind} time around each row's own median; the end bins hold all samples beyond."]


def _timed(run: Results, cases: list[Case]) -> list[Case]:
    return [c for c in columns.ordered(run, cases) if c.times.get(run.main_kind)]


def _widths(timed: list[Case], width: int) -> tuple[int, int, bool]:
    """How wide names and bars are, and whether there is room for histograms beside them."""
    label = min(max(len(columns.name(c)) for c in timed), LABEL)
    bar = min(width - label - VALUE - BINS - 6, BAR)
    if bar >= SHORTEST:
        return label, bar, True
    return label, max(min(width - label - VALUE - 2, BAR), 1), False


def bars(share: float, width: int, ink: Ink = BLOCKS) -> str:
    """A bar of `share` of `width` characters, in steps of an eighth if the ink has `parts`."""
    steps = len(ink.parts) + 1
    whole, part = divmod(round(share * width * steps), steps)
    return ink.full * whole + (ink.parts[part - 1] if part else "")


def deviations(case: Case, kind: str) -> np.ndarray:
    """Return the deviation of each sample from the median, as a share of the median."""
    samples = stats.flat(case.times[kind])
    return samples / np.median(samples) - 1


def histogram(values: np.ndarray, reach: float, ink: Ink = BLOCKS) -> str:
    """BINS characters from -`reach` to `reach`; the fullest bin has the highest character, an empty one a blank."""
    edges = np.linspace(-reach, reach, BINS + 1)
    counts, _ = np.histogram(np.clip(values, -reach, reach), edges)
    top = len(ink.levels)
    heights = np.ceil(counts * top / counts.max()).astype(int)
    return "".join(ink.levels[h - 1] if h else " " for h in heights)


def _speeds(run: Results, timed: list[Case], kind: str) -> tuple[str, list[stats.Ratio]]:
    """A heading and speed-ups over eager or a study's baseline; without those, speeds relative to the fastest."""
    base = run.baseline(timed[0])
    what = f"x {run.reference_name}"
    if base is None or not base.times.get(kind):
        base, what = min(timed, key=lambda case: case.median(kind) or inf), "speed, fastest = 1"
    return what, [SELF if case is base else run.ratio(base, case, kind) for case in timed]


def _reach(timed: list[Case], kind: str) -> float:
    """Half the width of the group's scale: the smallest of REACHES that holds WITHIN of the samples, or the largest."""
    reaches = REACHES if any(stats.bimodal(case.times[kind]) for case in timed) else REACHES + WIDER
    away = np.quantile(np.abs(np.concatenate([deviations(case, kind) for case in timed])), WITHIN)
    return next((reach for reach in reaches if away <= reach), reaches[-1])


def _heading(what: str, kind: str, reach: float, place: int, both: bool) -> str:
    if not both:
        return what
    scale = f"{kind.replace('_', ' ')}, -{100 * reach:g} % .. +{100 * reach:g} %"
    return f"{what:{place}}  {scale:^{BINS + 2}}"
