"""The chart of a roofline: points below slopes and peaks on logarithmic axes. Points on each other have one label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import atan2, degrees, hypot, inf, log10, sqrt

from cudalab.report.html.groups import Label, at_right, margin, needed, together
from cudalab.report.html.palette import INK, MUTED, style_of
from cudalab.report.html.paper import SIZE, Paper, Scale, decades, longer, short

WIDE, HIGH, LEFT = 420, 270, 54  # width with margins, least height of the plot, width of the margin at the left
DECADES = 1e3  # from the left edge to the place where bytes are no longer the limit
LINE, GAP = SIZE + 1, 7  # of texts on slopes: height, and distance of the foot of letters from the line
CLOSE = 3.0  # pixels between points that are one group


@dataclass(frozen=True)
class Point:
    """A rate with its interval, `at` a place on the other axis; `style`: the index of its line style.

    `emphasis`: one of ours. A point without a name has no label.
    """

    name: str
    at: float
    rate: float
    low: float
    high: float
    hint: str
    style: int = 0
    emphasis: bool = False


@dataclass(frozen=True)
class Slope:
    """The rate at 1 of the other axis, and the text along the line."""

    rate: float
    text: str
    measured: bool

    @property
    def colour(self) -> str:
        return INK if self.measured else MUTED


def roofline(
    points: Sequence[Point], slopes: Sequence[Slope], peaks: Sequence[tuple[float, str]],
    axes: tuple[str, str] = ("operations per byte", "operations per second"), close: float = CLOSE,
) -> str:  # fmt: skip
    """The points below `slopes`, at least one, and `peaks`, rates and names; of points `close` together one label."""
    slopes = sorted(slopes, key=lambda slope: -slope.rate)
    fastest, slowest = slopes[0].rate, slopes[-1].rate
    first, last = (end(point.at for point in points) for end in (min, max))
    reached = max(point.high for point in points)
    roof = max((rate for rate, _ in peaks), default=max(fastest * last, reached))
    top = 1.6 * max(roof, reached)
    left, right = min(first / 4, roof / fastest / DECADES), max(1.6 * last, 4 * roof / slowest)
    bottom = min(*(point.low / 2 for point in points), slowest * left)
    beside = margin([(point.name, point.emphasis) for point in points] + [(name, False) for _, name in peaks])
    wide = WIDE - LEFT - beside
    x = Scale(left, right, 0, wide, "log")
    tall = max(HIGH, needed([Label(0, (("", "", False),))] * (len({p.name for p in points}) + len(peaks))))
    y = Scale(bottom, top, tall, 0, "log")
    paper = Paper(wide, tall, LEFT, beside)
    paper.below(x, decades(left, right, 5), longer if right < 1e5 else short, axes[0])
    paper.beside(y, decades(bottom, top, 12), short, axes[1])
    for slope in slopes:
        ends = (left, min(roof / slope.rate, right))
        paper.lines([[(x(at), y(slope.rate * at)) for at in ends]], slope.colour, 1.3, (5, 4) if slope.measured else ())
    for rate, _ in peaks:
        paper.lines([[(x(min(rate / fastest, right)), y(rate)), (wide, y(rate))]], MUTED, 1.3)
    _along(paper, slopes, sqrt(left * min(roof / fastest, right)), x, y)
    labels = [Label(y(rate), ((text, MUTED, False),)) for rate, text in peaks]

    def apart(one: Point, other: Point) -> float:
        return hypot(x(one.at) - x(other.at), y(one.rate) - y(other.rate))

    for point in points:
        if not point.name:
            _drawn(paper, [point], x, y)
    for group in together(sorted(filter(_named, points), key=lambda point: not point.emphasis), apart, close):
        _drawn(paper, group, x, y)
        names = {point.name: point.emphasis for point in group}
        colour = style_of(group[0].style)[0]
        labels.append(Label(y(group[0].rate), tuple((name, colour, bold) for name, bold in names.items())))
    at_right(paper, labels)
    return paper.svg()


def _named(point: Point) -> bool:
    return bool(point.name)


def _along(paper: Paper, slopes: Sequence[Slope], middle: float, x: Scale, y: Scale) -> None:
    """A text above the middle of each slope, the fastest first; if slopes are close, both texts above the upper one."""
    decade = x(10 * middle) - x(middle), y(slopes[0].rate) - y(10 * slopes[0].rate)  # pixels of a factor of ten
    long, above = hypot(*decade), 0.0
    turned = -degrees(atan2(decade[1], decade[0]))
    for i, slope in enumerate(slopes):
        apart = decade[0] / long * decade[1] * log10(slope.rate / slopes[i + 1].rate) if i + 1 < len(slopes) else inf
        near = apart < LINE + GAP
        above, base = (LINE, slope) if near else (0.0, slopes[i - 1] if above else slope)
        off = GAP + above
        across, up = x(middle) - off * decade[1] / long, y(base.rate * middle) - off * decade[0] / long
        paper.text(across, up, slope.text, "middle", colour=slope.colour, size=SIZE - 1, angle=turned)


def _drawn(paper: Paper, group: Sequence[Point], x: Scale, y: Scale) -> None:
    """A shape and an interval for each point, ours on top, and a faint line from one of them to the names."""
    colour, _, shape = style_of(group[0].style)
    at, level = x(group[0].at), y(group[0].rate)
    if group[0].name:
        paper.lines([[(at, level), (paper.width, level)]], colour, dash=(1, 3), faint=0.45)
    paper.lines(([(x(p.at), y(p.low)), (x(p.at), y(p.high))] for p in group), colour)
    for point in reversed(group):
        paper.mark(x(point.at), y(point.rate), shape, 4.4 if point.emphasis and point.name else 3.2, colour, point.hint)
