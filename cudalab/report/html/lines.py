"""Charts of lines: over sizes, and errors over inputs. Lines that lie on each other are one, with the names of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf

import numpy as np

from cudalab.report.html.groups import APART, Label, at_right, margin, together
from cudalab.report.html.palette import INK, MUTED, style_of
from cudalab.report.html.paper import SIZE, Paper, Path, Scale, commas, decades, longer, powers, short, steps, thinned

WIDE, DEEP, LEFT = 420, 250, 58  # width with margins, least height of the plot, width of the margin at the left
MARKED = 8  # vertical lines of a chart over runs at most


@dataclass(frozen=True)
class Line:
    """One variant's points and the index of its line style; `emphasis`: a thick line, for ours."""

    name: str
    points: Sequence[tuple[float, float]]
    hints: Sequence[str] = ()
    style: int = 0
    emphasis: bool = False
    ceiling: bool = False
    absent: Sequence[float] = ()  # inputs where NaN or infinity was wrong

    @property
    def colour(self) -> str:
        return INK if self.ceiling else style_of(self.style)[0]


@dataclass(frozen=True)
class Mark:
    """A vertical line with a name."""

    x: float
    name: str


def over_sizes(lines: Sequence[Line], marks: Sequence[Mark], axes: tuple[str, str]) -> str:
    """Lines over a logarithmic axis of sizes, each with its name at the right end."""
    xs = [x for line in lines for x, _ in line.points]
    top = 1.06 * max(y for line in lines for _, y in line.points)
    inside = sorted((m for m in marks if min(xs) < m.x < max(xs)), key=lambda mark: mark.x)
    height = max(DEEP, APART * len(lines) + 20)
    right = margin((line.name, line.emphasis) for line in lines)
    long = WIDE - LEFT - right
    paper = Paper(long, height, LEFT, right, 8 + APART * len(inside))
    x, y = Scale(min(xs), max(xs), 0, long, "log"), Scale(0, top, height, 0)
    paper.below(x, decades(min(xs), max(xs)), short, axes[0])
    paper.beside(y, steps(top, 5), commas, axes[1])
    _marked(paper, inside, x, long, height)
    found = grouped(lines, x, y)
    for group in found:
        _drawn(paper, group, x, y)
    at_right(paper, [_label(group, y(max(group[0].points)[1])) for group in found])
    return paper.svg()


def _marked(paper: Paper, marks: Sequence[Mark], x: Scale, long: float, height: float) -> None:
    """Vertical lines, whose names stand above the chart, each in a row of its own."""
    for i, mark in enumerate(marks):
        up = -6 - APART * i
        paper.lines([[(x(mark.x), up + 7), (x(mark.x), height)]], MUTED, dash=(2, 3))
        half = 3 * len(mark.name)
        paper.text(min(max(x(mark.x), half), long - half), up, mark.name, "middle", colour=MUTED, size=SIZE - 1)


def over_runs(lines: Sequence[Line], marks: Sequence[Mark]) -> str:
    """Lines over the runs of a history, in percent of their first values."""
    xs, ys = zip(*(point for line in lines for point in line.points), strict=True)
    first, last = int(min(xs)), int(max(xs))
    marked = sorted(marks, key=lambda mark: mark.x)[-MARKED:]
    right = margin((line.name, line.emphasis) for line in lines)
    height, long = max(DEEP, APART * len(lines) + 20), WIDE - LEFT - right
    paper = Paper(long, height, LEFT, right, 8 + APART * len(marked))
    x, y = Scale(first - 0.5, last + 0.5, 0, long), Scale(min(*ys, 95.0), max(*ys, 105.0), height, 0)
    paper.below(x, range(first, last + 1, max((last - first) // 5, 1)), commas, "run")
    step = steps(y.high - y.low, 5)[1]
    paper.beside(y, [step * i for i in range(ceil(y.low / step), int(y.high / step) + 1)], commas, "% of the first run")
    _marked(paper, marked, x, long, height)
    found = grouped(lines, x, y)
    for group in found:
        _drawn(paper, group, x, y)
    at_right(paper, [_label(group, y(group[0].points[-1][1])) for group in found])
    return paper.svg()


def errors(lines: Sequence[Line], axes: tuple[str, str], constants: tuple[float, float]) -> str:
    """Errors over inputs, both axes symmetrically logarithmic beyond `constants`."""
    xs = [x for line in lines for x, _ in line.points] or [0.0, 1.0]
    top = 2 * max((y for line in lines for _, y in line.points), default=1.0) or 1.0
    height = max(DEEP, APART * len(lines) + 20)
    right = margin((line.name, line.emphasis) for line in lines)
    long = WIDE - LEFT - right
    paper = Paper(long, height, LEFT, right)
    x = Scale(min(xs), max(xs), 0, long, "symlog", constants[0])
    y = Scale(0, top, height, 0, "symlog", constants[1])
    paper.below(x, thinned(powers(min(xs), max(xs), constants[0]), x, long / 9), longer, axes[0])
    paper.beside(y, thinned(powers(0, top), y, height / 9), short, axes[1])
    found = grouped(lines, x, y)
    for group in found:
        at, peak = _peak(group[0])
        paper.lines([[(x(at), y(peak)), (long, y(peak))]], group[0].colour, dash=(1, 3), faint=0.45)
        _drawn(paper, group, x, y)
        for line in group:  # a cross at the upper edge where NaN or infinity was wrong
            for place in line.absent:
                paper.mark(x(place), 0, "cross", 4, line.colour, f"{line.name}: no number at {place:g}")
    at_right(paper, [_label(group, y(_peak(group[0])[1])) for group in found])
    return paper.svg()


def grouped(lines: Sequence[Line], x: Callable[[float], float], y: Callable[[float], float]) -> list[list[Line]]:
    """Lines that lie on each other, ours first in a group; a ceiling stays alone."""
    places = {id(line): [(x(a), y(b)) for a, b in sorted(line.points)] for line in lines}

    def apart(one: Line, other: Line) -> float:
        """Return the largest distance in pixels of a point of either from the other line."""
        if one.ceiling or other.ceiling or one.absent != other.absent:
            return inf
        here, there = places[id(one)], places[id(other)]
        return max(_distance(here, there), _distance(there, here))

    return together(sorted(lines, key=lambda line: not line.emphasis), apart)


def _distance(points: Path, line: Path) -> float:
    """How far the furthest of `points` is above, below or beside a line; both go from left to right."""
    xs, ys = zip(*line, strict=True)
    at = [x for x, _ in points]
    beside = max(xs[0] - at[0], at[-1] - xs[-1], 0)
    return max(beside, float(np.abs(np.interp(at, xs, ys) - [y for _, y in points]).max()))


def _drawn(paper: Paper, group: Sequence[Line], x: Callable[[float], float], y: Callable[[float], float]) -> None:
    """The line of a group, with a shape at each point that says the numbers of all; thick if one of them is ours."""
    first = group[0]
    _, dash, shape = style_of(first.style)
    dash = (5, 4) if first.ceiling else dash
    path = [(x(a), y(b)) for a, b in sorted(first.points)]
    paper.lines([path], first.colour, 2.6 if first.emphasis else 1.3, () if dash == (1, 0) else dash)
    if not first.ceiling:
        reach = 3.4 if first.emphasis else 2.6
        said: dict[float, tuple[float, list[str]]] = {}  # by place: the height of the first line there, hints of all
        for line in group:
            for (a, b), hint in zip(line.points, line.hints, strict=False):
                said.setdefault(a, (b, []))[1].append(hint)
        for a, (b, texts) in said.items():
            paper.mark(x(a), y(b), shape, reach, first.colour, "\n".join(texts))


def _label(group: Sequence[Line], y: float) -> Label:
    return Label(y, tuple((line.name, group[0].colour, line.emphasis) for line in group))


def _peak(line: Line) -> tuple[float, float]:
    """Return the point of the largest error."""
    return max(line.points, key=lambda point: point[1])
