"""Charts of rows: bars with intervals, and samples.

Names and values are beside the marks, not in a legend. The widths are chosen so that a chart fits on a phone and can be
read there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cudalab.report.html import text_width
from cudalab.report.html.palette import BAD, INK, OTHER, OURS, SURFACE
from cudalab.report.html.paper import NAMED, SIZE, Paper, Path, Scale, commas, powers, short, steps, thinned

WIDE, NAMES, TEXTS = 406, 148, 126  # widths: of all, of the names at the left at least, of the values at the right
ROW = 21  # height of a row
MARGIN = 6
WIDER = 2  # an interval that reaches further than so many times the longest bar has no end in the chart
TALL = 0.66  # of a row: the height of a bar
ROLES = {"ours": OURS, "other": OTHER, "copy": SURFACE, "bad": BAD}  # of what a bar is filled with


@dataclass(frozen=True)
class Bar:
    """A row: a name, a bar with its 95 % interval, and a text at its end; without a value no bar is drawn."""

    name: str
    text: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    role: str = "other"
    hint: str = ""


@dataclass(frozen=True)
class Strip:
    """A row of samples: their relative deviations from the median, and a text beside them."""

    name: str
    deviations: Sequence[float]
    text: str
    role: str = "other"
    hint: str = ""
    noisy: bool = field(default=False)


def bars(rows: Sequence[Bar], axis: str, rule: float | None = None, symlog: float = 0) -> str:
    """Horizontal bars from 0. `rule`: the place of a dashed line; `symlog`: the constant of that scale, 0: linear."""
    most = max([r.value or 0.0 for r in rows], default=0.0) or 1.0
    top = min(max([most, *(r.high for r in rows if r.high is not None)]), WIDER * most)
    top = max(top, rule or 0) * (1.02 if not symlog else 2)
    paper = _sheet(rows, ROW)
    scale = Scale(0, top, 0, paper.width, "symlog" if symlog else "linear", symlog or 1)
    ticks = thinned(powers(0, top), scale, paper.width / 6) if symlog else steps(top)
    paper.below(scale, ticks, short if symlog else commas, axis)
    intervals: list[Path] = []
    for i, row in enumerate(rows):
        middle = ROW * (i + 0.5)
        if row.value is not None:
            edge = INK if row.role == "copy" else ""
            high = ROW * TALL
            paper.bar(0, middle - high / 2, scale(row.value), high, ROLES[row.role], row.hint, edge)
        if row.low is not None and row.high is not None:
            ends = [scale(end) for end in (row.low, row.high) if end <= top]
            intervals.append([(x, middle) for x in (scale(row.low), scale(min(row.high, top)))])
            intervals += ([(x, middle - 3.5), (x, middle + 3.5)] for x in ends)
        _texts(paper, row, middle)
    paper.lines(intervals, INK)
    if rule is not None:
        paper.lines([[(scale(rule), 0), (scale(rule), paper.height)]], INK, dash=(4, 3))
    return paper.svg()


def samples(rows: Sequence[Strip], axis: str, edge: float, bins: int = 64) -> str:
    """For each row a histogram of its samples from -edge to edge; samples beyond are only counted."""
    tall = ROW + 4
    paper = _sheet(rows, tall)
    scale = Scale(-edge, edge, 0, paper.width)
    # The ticks between the middle and the ends have no number: numbers would touch.
    paper.below(scale, [edge * i / 2 for i in range(-2, 3)], lambda v: f"{100 * v:g}" if v in (-edge, 0, edge) else "",
                axis)  # fmt: skip
    for i, row in enumerate(rows):
        base = tall * (i + 0.92)
        corners = [(scale(at), base - 0.84 * tall * height) for at, height in outline(row.deviations, edge, bins)]
        paper.staircase(corners, base, OURS if row.role == "ours" else OTHER, row.hint)
        _texts(paper, row, tall * (i + 0.55), "bad" if row.noisy else row.role)
    paper.lines([[(scale(0), 0), (scale(0), paper.height)]], INK, dash=(4, 3))
    return paper.svg()


def outline(deviations: Sequence[float], edge: float, bins: int) -> list[tuple[float, float]]:
    """The corners of a histogram as (place, height up to 1); bins equal to the one before are left out."""
    counts = [0] * bins
    for value in deviations:
        if -edge <= value <= edge:
            counts[min(int((value + edge) / (2 * edge) * bins), bins - 1)] += 1
    top = max(counts) or 1
    corners, last = [(-edge, 0.0)], 0
    for i, count in enumerate(counts):
        if count != last:
            corners.append((-edge + 2 * edge * i / bins, count / top))
        last = count
    return [*corners, (edge, 0.0)]


def _sheet(rows: Sequence[Bar | Strip], row: float) -> Paper:
    """A sheet with room for the names at the left."""
    names = [text_width.reach(r.name, SIZE, bold=r.role == "ours") + 2 * MARGIN for r in rows]
    left = min(max([NAMES, *names]), NAMED + 2 * MARGIN)
    return Paper(WIDE - left - TEXTS, row * len(rows), left, TEXTS)


def _texts(paper: Paper, row: Bar | Strip, middle: float, role: str = "") -> None:
    """The name at the left, ours bold; the value at the right, of what went wrong in its colour."""
    role = role or row.role
    paper.text(-MARGIN, middle, row.name, "end", bold=row.role == "ours")
    paper.text(paper.width + MARGIN, middle, row.text, colour=BAD if role == "bad" else "")
