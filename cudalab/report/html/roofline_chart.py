"""The chart of a roofline, made with Altair: points at one intensity, slopes and peaks above them, both axes log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import atan2, cos, degrees, inf, log10, sqrt
from typing import Any

import altair as alt

from cudalab.report.html.layers import LONGER, SHORT, SIZE, Spec, chart_of, finished, powers
from cudalab.report.html.lines import APART, End, at_right
from cudalab.report.html.palette import INK, MUTED, style_of

WIDE, HIGH = 214, 270  # of the axes, in pixels
DECADES = 1e3  # from the left edge to the place where bytes are no longer the limit
LINE, GAP = SIZE + 1, 4  # of texts on slopes: height, and distance from the line
SOLID, DASHED = [1, 0], [5, 4]


@dataclass(frozen=True)
class Point:
    """A variant's rate with its interval, and the index of its line style; `emphasis`: one of ours."""

    name: str
    rate: float
    low: float
    high: float
    hint: str
    style: int = 0
    emphasis: bool = False


@dataclass(frozen=True)
class Slope:
    """Bytes a second, and the text along the line."""

    rate: float
    text: str
    measured: bool


def roofline(at: float, points: Sequence[Point], slopes: Sequence[Slope], peaks: Sequence[tuple[float, str]]) -> Spec:
    """The points at `at` operations a byte, below `slopes`, at least one, and `peaks`, rates and names of units."""
    slopes = sorted(slopes, key=lambda slope: -slope.rate)
    fastest, slowest = slopes[0].rate, slopes[-1].rate
    height = max(HIGH, APART * (len(points) + len(peaks)))
    reached = max(point.high for point in points)
    roof = max((rate for rate, _ in peaks), default=max(fastest * at, reached))
    top = 1.6 * max(roof, reached)
    left, right = min(at / 4, roof / fastest / DECADES), max(1.6 * at, 4 * roof / slowest)
    bottom = min(*(point.low / 2 for point in points), slowest * left)
    x_scale = alt.Scale(type="log", domain=[left, right], nice=False)
    y_scale = alt.Scale(type="log", domain=[bottom, top], nice=False)
    x_axis = alt.Axis(title="operations per byte", values=powers(left, right, left), labelExpr=LONGER)
    y_axis = alt.Axis(title="operations per second", values=powers(bottom, top, bottom), labelExpr=SHORT)
    x, y = alt.X("x:Q", scale=x_scale, axis=x_axis), alt.Y("y:Q", scale=y_scale, axis=y_axis)
    wide, high = WIDE / log10(right / left), height / log10(top / bottom)  # pixels of a factor of ten

    def share(value: float) -> float:
        return log10(value / bottom) / log10(top / bottom)

    def value(share: float) -> float:
        return float(bottom * (top / bottom) ** share)

    rows = [
        {"k": i, "x": place, "y": slope.rate * place, "c": _colour(slope), "d": DASHED if slope.measured else SOLID}
        for i, slope in enumerate(slopes)
        for place in (left, min(roof / slope.rate, right))
    ]
    rows += [
        {"k": len(slopes) + i, "x": place, "y": rate, "c": MUTED, "d": SOLID}
        for i, (rate, _) in enumerate(peaks)
        for place in (min(rate / fastest, right), right)
    ]
    lines = chart_of(rows).mark_line(aria=False, strokeWidth=1.3)
    look = {"detail": alt.Detail("k:N"), "strokeDash": alt.StrokeDash("d:N", scale=None)}
    names = [End(point.rate, point.name, style_of(point.style)[0], point.emphasis) for point in points]
    names += [End(rate, text, MUTED) for rate, text in peaks]
    layers = [
        lines.encode(x=x, y=y, color=alt.Color("c:N", scale=None), **look),
        *_along(slopes, left, min(roof / fastest, right), (wide, high), x, y),
        *_points(at, points, x, y, y_scale),
        *at_right(names, y_scale, share, value, WIDE, height),
    ]
    return finished(layers, WIDE, height, 54, 152)


def _along(
    slopes: Sequence[Slope], left: float, ridge: float, decade: tuple[float, float], x: alt.X, y: alt.Y
) -> list[Any]:
    """A text above the middle of each slope, the fastest first; if slopes are close, both texts above the upper one."""
    angle = atan2(decade[1], decade[0])
    middle, layers, above = sqrt(left * ridge), list[Any](), 0.0
    for i, slope in enumerate(slopes):
        after = slopes[i + 1 :]
        apart = cos(angle) * decade[1] * log10(slope.rate / after[0].rate) if after else inf
        near = apart < LINE + GAP
        above, base = (LINE, slope) if near else (0.0, slopes[i - 1] if above else slope)
        text = chart_of([{"x": middle, "y": base.rate * middle, "t": slope.text, "c": _colour(slope)}]).mark_text(
            angle=-degrees(angle) % 360, baseline="bottom", dy=-GAP - above, fontSize=SIZE - 1, aria=False
        )
        layers.append(text.encode(x=x, y=y, text=alt.Text("t:N"), color=alt.Color("c:N", scale=None)))
    return layers


def _points(at: float, points: Sequence[Point], x: alt.X, y: alt.Y, scale: alt.Scale) -> list[Any]:
    """A shape and an interval for each variant, ours on top, and a faint line to its name."""
    rows = []
    for point in sorted(points, key=lambda point: point.emphasis):
        colour, _, shape = style_of(point.style)
        ends = {"a": point.low, "b": point.high, "h": point.hint, "w": 60 if point.emphasis else 34}
        rows.append({"x": at, "y": point.rate, "c": colour, "s": shape, **ends})
    hue = alt.Color("c:N", scale=None)
    level = chart_of(rows).mark_rule(opacity=0.45, strokeDash=[1, 3], aria=False)
    interval = chart_of(rows).mark_rule(aria=False)
    shapes = chart_of(rows).mark_point(opacity=1)
    shape_, size = alt.Shape("s:N", scale=None), alt.Size("w:Q", scale=None)
    look = {"color": hue, "fill": alt.Fill("c:N", scale=None), "shape": shape_, "size": size}
    return [
        level.encode(x=x, y=y, x2=alt.X2Value(WIDE), color=hue),
        interval.encode(x=x, y=alt.Y("a:Q", scale=scale), y2=alt.Y2("b:Q"), color=hue),
        shapes.encode(x=x, y=y, description=alt.Description("h:N"), **look),
    ]


def _colour(slope: Slope) -> str:
    return INK if slope.measured else MUTED
