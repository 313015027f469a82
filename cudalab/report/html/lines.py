"""Charts of lines, made with Altair: over sizes and runs, and errors over inputs. Their names are at the right ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import expm1, log1p
from typing import Any

import altair as alt

from cudalab.report.html.layers import LONGER, SHORT, SIZE, Spec, chart_of, finished, powers, thinned
from cudalab.report.html.palette import INK, MUTED, style_of

LONG, DEEP = 210, 250  # width and height of a chart of lines
APART = 14  # of two names at the ends of lines
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


@dataclass(frozen=True)
class End:
    """A name at the right of a chart, at the height of a value."""

    y: float
    text: str
    colour: str
    bold: bool = False


@dataclass(frozen=True)
class Mark:
    """A vertical line with a name."""

    x: float
    name: str


def over_sizes(lines: Sequence[Line], marks: Sequence[Mark], axes: tuple[str, str]) -> Spec:
    """Lines over a logarithmic axis of sizes, each with its name at the right end."""
    xs = [x for line in lines for x, _ in line.points]
    top = 1.06 * max(y for line in lines for _, y in line.points)
    x_scale = alt.Scale(type="log", domain=[min(xs), max(xs)], nice=False)
    y_scale = alt.Scale(domain=[0, top], nice=False)
    x_axis = alt.Axis(title=axes[0], labelExpr=SHORT, values=powers(min(xs), max(xs), first=min(xs)))
    inside = [m for m in marks if min(xs) < m.x < max(xs)]
    x, y = alt.X("x:Q", scale=x_scale, axis=x_axis), alt.Y("y:Q", scale=y_scale, axis=alt.Axis(title=axes[1]))
    layers = [
        *_vertical(inside, x_scale),
        *_strokes(lines, x, y),
        *at_right(
            ends_of([max(line.points)[1] for line in lines], lines),
            y_scale,
            lambda v: v / top,
            lambda share: top * share,
        ),
    ]
    return finished(layers, LONG, DEEP, 58, 152, top=8 + APART * len(inside))


def over_runs(lines: Sequence[Line], marks: Sequence[Mark]) -> Spec:
    """Lines over the runs of a history, in percent of their first values."""
    xs, ys = zip(*(point for line in lines for point in line.points), strict=True)
    low, high = min(*ys, 95.0), max(*ys, 105.0)
    first, last = int(min(xs)), int(max(xs))
    ticks = list(range(first, last + 1, max((last - first) // 5, 1)))
    x_scale = alt.Scale(domain=[min(xs) - 0.5, max(xs) + 0.5], nice=False)
    y_scale = alt.Scale(domain=[low, high], nice=False, zero=False)
    x = alt.X("x:Q", scale=x_scale, axis=alt.Axis(title="run", values=ticks, format="d"))
    y = alt.Y("y:Q", scale=y_scale, axis=alt.Axis(title="% of the first run"))
    ends = ends_of([line.points[-1][1] for line in lines], lines)
    layers = [
        *_vertical(marks[-MARKED:], x_scale),
        *_strokes(lines, x, y),
        *at_right(ends, y_scale, lambda v: (v - low) / (high - low), lambda share: low + share * (high - low)),
    ]
    return finished(layers, LONG, DEEP, 58, 152, top=8 + APART * len(marks[-MARKED:]))


def errors(lines: Sequence[Line], axes: tuple[str, str], constants: tuple[float, float]) -> Spec:
    """Errors over inputs, both axes symmetrically logarithmic beyond `constants`."""
    xs = [x for line in lines for x, _ in line.points] or [0.0, 1.0]
    top = 2 * max((y for line in lines for _, y in line.points), default=1.0) or 1.0
    x_scale = alt.Scale(type="symlog", constant=constants[0], domain=[min(xs), max(xs)], nice=False)
    y_scale = alt.Scale(type="symlog", constant=constants[1], domain=[0, top], nice=False)
    x_ticks = thinned(powers(min(xs), max(xs), constants[0]), constants[0], min(xs), max(xs))
    y_ticks = thinned(powers(0, top), constants[1], 0, top)
    x = alt.X("x:Q", scale=x_scale, axis=alt.Axis(title=axes[0], values=x_ticks, labelExpr=LONGER))
    y = alt.Y("y:Q", scale=y_scale, axis=alt.Axis(title=axes[1], values=y_ticks, labelExpr=SHORT))

    def share(value: float) -> float:
        return log1p(value / constants[1]) / log1p(top / constants[1])

    def value(share: float) -> float:
        return constants[1] * expm1(share * log1p(top / constants[1]))

    tops = [max(line.points, key=lambda point: point[1]) for line in lines]
    reach = [{"x": at, "y": peak, "c": style_of(line.style)[0]} for (at, peak), line in zip(tops, lines)]
    level = chart_of(reach).mark_rule(opacity=0.45, strokeDash=[1, 3], aria=False)
    layers = [
        level.encode(x=x, y=y, x2=alt.X2Value(LONG), color=alt.Color("c:N", scale=None)),
        *_strokes(lines, x, y, points=False),
        *_absent(lines, x, y, top),
        *at_right(ends_of([peak for _, peak in tops], lines), y_scale, share, value),
    ]
    return finished(layers, LONG, DEEP, 58, 152)


def _strokes(lines: Sequence[Line], x: alt.X, y: alt.Y, points: bool = True) -> list[Any]:
    """The lines, ours on top, with a shape at each point; its description is the hint."""
    rows: list[dict[str, Any]] = []
    dots: list[dict[str, Any]] = []
    for rank, line in enumerate(sorted(lines, key=lambda line: line.emphasis)):
        colour, dash, shape = (INK, (5, 4), "circle") if line.ceiling else style_of(line.style)
        look: dict[str, Any] = {"k": rank, "c": colour, "d": list(dash), "w": 2.6 if line.emphasis else 1.3}
        rows += [{"x": a, "y": b, **look} for a, b in line.points]
        if points and not line.ceiling:
            look = {"k": rank, "c": colour, "s": shape, "w": 46 if line.emphasis else 26}
            dots += [{"x": a, "y": b, "h": hint, **look} for (a, b), hint in zip(line.points, line.hints)]
    hue, order = alt.Color("c:N", scale=None), alt.Order("x:Q")
    layers = [
        chart_of(rows)
        .mark_line(aria=False)
        .encode(x=x, y=y, color=hue, order=order, detail=alt.Detail("k:N"),
                strokeDash=alt.StrokeDash("d:N", scale=None), strokeWidth=alt.StrokeWidth("w:Q", scale=None))
    ]  # fmt: skip
    if dots:
        layers.append(
            chart_of(dots)
            .mark_point(opacity=1)
            .encode(x=x, y=y, color=hue, fill=alt.Fill("c:N", scale=None), shape=alt.Shape("s:N", scale=None),
                    size=alt.Size("w:Q", scale=None), description=alt.Description("h:N"))
        )  # fmt: skip
    return layers


def _absent(lines: Sequence[Line], x: alt.X, y: alt.Y, top: float) -> list[Any]:
    """A cross at the upper edge where NaN or infinity was wrong."""
    rows = [
        {"x": at, "y": top, "h": f"{line.name}: no number at {at:g}", "c": style_of(line.style)[0]}
        for line in lines
        for at in line.absent
    ]
    crosses = chart_of(rows).mark_point(shape="cross", size=50, opacity=1)
    look = {"color": alt.Color("c:N", scale=None), "description": alt.Description("h:N")}
    return [crosses.encode(x=x, y=y, **look)] if rows else []


def _vertical(marks: Sequence[Mark], scale: alt.Scale) -> list[Any]:
    """Dotted lines, each with its name above the chart, in a row of its own."""
    layers: list[Any] = []
    for i, mark in enumerate(sorted(marks, key=lambda mark: mark.x)):
        data, x = chart_of([{"x": mark.x, "t": mark.name}]), alt.X("x:Q", scale=scale)
        up = -6 - APART * i
        layers.append(data.mark_rule(color=MUTED, strokeDash=[2, 3], aria=False).encode(
            x=x, y=alt.YValue(up + 7), y2=alt.Y2Value(DEEP)))  # fmt: skip
        text = data.mark_text(color=MUTED, fontSize=SIZE - 1, aria=False)
        layers.append(text.encode(x=x, y=alt.YValue(up), text=alt.Text("t:N")))
    return layers


def ends_of(places: Sequence[float], lines: Sequence[Line]) -> list[End]:
    """The names of lines, each at the value in `places`."""
    colours = [INK if line.ceiling else style_of(line.style)[0] for line in lines]
    return [End(y, line.name, colour, line.emphasis) for y, line, colour in zip(places, lines, colours)]


def at_right(
    ends: Sequence[End],
    scale: alt.Scale,
    share: Callable[[float], float],
    value: Callable[[float], float],
    width: float = LONG,
    height: float = DEEP,
) -> list[Any]:
    """Names at the right of a chart, each at its value, moved apart where they would overlap.

    `share` maps a value to its share of the height, `value` a share to its value.
    """
    ends = sorted(ends, key=lambda end: -end.y)
    places = spread([height * (1 - share(end.y)) for end in ends], APART, height)
    rows = [
        {"y": end.y, "z": value(1 - place / height), "t": end.text, "b": end.bold, "c": end.colour}
        for end, place in zip(ends, places)
    ]
    colour = alt.Color("c:N", scale=None)
    leader = chart_of(rows).mark_rule(opacity=0.6, strokeWidth=1, aria=False)
    span = {"x": alt.XValue(width + 1), "x2": alt.X2Value(width + 12), "y2": alt.Y2("z:Q")}
    layers = [leader.encode(y=alt.Y("y:Q", scale=scale), color=colour, **span)]
    for bold in (True, False):
        text = chart_of([row for row in rows if row["b"] is bold]).mark_text(
            align="left", fontSize=SIZE, fontWeight="bold" if bold else "normal", aria=False
        )
        place = {"x": alt.XValue(width + 15), "y": alt.Y("z:Q", scale=scale)}
        layers.append(text.encode(**place, color=colour, text=alt.Text("t:N")))
    return layers


def spread(places: Sequence[float], apart: float, depth: float) -> list[float]:
    """Sorted `places` moved as little as need be so that neighbours are `apart` and none lies below `depth`."""
    out: list[float] = []
    for place in places:
        out.append(max(place, out[-1] + apart) if out else place)
    limit = max(depth, apart * (len(out) - 1))
    for i in reversed(range(len(out))):
        out[i] = min(out[i], limit)
        limit = out[i] - apart
    return out
