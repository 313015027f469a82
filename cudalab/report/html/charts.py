"""Vega-Lite specifications of the charts, made with Altair: bars, samples, lines over sizes, errors over inputs.

All texts are data, never expressions, so that a results file cannot run code. Names and values are beside the marks,
not in a legend. The widths are chosen so that a chart fits on a phone and can be read there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import copysign, expm1, inf, log1p
from typing import Any

import altair as alt

from cudalab.report.html.draw import FONT
from cudalab.report.html.palette import BAD, GRID, INK, MUTED, OTHER, OURS, SURFACE, style_of

Spec = dict[str, Any]

NAMES, PLOT, TEXTS = 148, 152, 104  # widths: of the names at the left, of the marks, of the values at the right
ROW = 21  # height of a row
SIZE = 12  # of a text
MARGIN = 6
LONG, DEEP = 210, 250  # width and height of a chart of lines
APART = 14  # of two names at the ends of lines

SHORT = "format(datum.value, '~s')"  # of a tick: 10k, 1M
LONGER = "format(datum.value, abs(datum.value) < 1e5 ? '~r' : '~e')"  # 0.01, 1000, 1e+5
ROLES = {"ours": OURS, "other": OTHER, "copy": SURFACE, "bad": BAD}  # of what a bar is filled with

CONFIG = {
    "font": FONT,
    "background": "transparent",
    "view": {"stroke": None},
    "axis": {
        "aria": False, "domainColor": MUTED, "gridColor": GRID, "tickColor": MUTED, "labelColor": MUTED,
        "titleColor": INK, "labelFontSize": SIZE - 1, "titleFontSize": SIZE, "titleFontWeight": "normal",
        "labelLimit": 0, "titleLimit": 0, "labelOverlap": True, "minExtent": 0, "titlePadding": 6,
    },
}  # fmt: skip


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
class Mark:
    """A vertical line with a name."""

    x: float
    name: str


@dataclass(frozen=True)
class Strip:
    """A row of samples: their relative deviations from the median, and a text beside them."""

    name: str
    deviations: Sequence[float]
    text: str
    role: str = "other"
    hint: str = ""
    noisy: bool = field(default=False)


def bars(rows: Sequence[Bar], axis: str, rule: float | None = None, symlog: float = 0) -> Spec:
    """Horizontal bars from 0. `rule`: the place of a dashed line; `symlog`: the constant of that scale, 0: linear."""
    top = max((v for r in rows for v in (r.value, r.high) if v is not None), default=1.0) or 1.0
    top = max(top, rule or 0) * (1.02 if not symlog else 2)
    kind: Any = {"type": "symlog", "constant": symlog} if symlog else {}
    ticks: Any = {"tickCount": 4}
    if symlog:
        ticks = {"values": _thinned(_powers(0, top), symlog, 0, top, 6), "labelExpr": SHORT}
    scale = alt.Scale(domain=[0, top], nice=False, **kind)
    x = alt.X("v:Q", scale=scale, axis=alt.Axis(title=axis, **ticks))
    data = [
        {"i": i, "v": r.value, "h": r.hint, "c": ROLES[r.role], "e": INK if r.role == "copy" else ROLES[r.role]}
        for i, r in enumerate(rows)
        if r.value is not None
    ]
    edge = {"color": alt.Color("c:N", scale=None), "stroke": alt.Stroke("e:N", scale=None)}
    marks = _data(data, y=_row(len(rows))).mark_bar(strokeWidth=1)
    layers = [marks.encode(x=x, description=alt.Description("h:N"), **edge)]
    sure = [{"i": i, "a": r.low, "b": r.high} for i, r in enumerate(rows) if r.low is not None and r.high is not None]
    if sure:
        interval = _data(sure, y=_row(len(rows))).mark_rule(color=INK, aria=False)
        layers.append(interval.encode(x=alt.X("a:Q", scale=scale), x2=alt.X2("b:Q")))
        ends = _data([{"i": row["i"], "v": row[end]} for row in sure for end in "ab"], y=_row(len(rows)))
        layers.append(ends.mark_tick(color=INK, size=7, thickness=1, opacity=1, aria=False).encode(x=x))
    if rule is not None:
        layers.append(_data([{"v": rule}]).mark_rule(color=INK, strokeDash=[4, 3], aria=False).encode(x=x))
    return _finished([*layers, *_names(rows), *_values(rows)], PLOT, ROW * len(rows), NAMES, TEXTS)


def samples(rows: Sequence[Strip], axis: str, edge: float, bins: int = 64) -> Spec:
    """For each row a histogram of its samples from -edge to edge; samples beyond are only counted."""
    scale = alt.Scale(domain=[-100 * edge, 100 * edge], nice=False)
    half = 50 * edge  # a tick without a number: numbers would touch
    plain = f"abs(datum.value) == {half!r} ? '' : datum.label"
    values = [half * i for i in (-2, -1, 0, 1, 2)]
    x = alt.X("x:Q", scale=scale, axis=alt.Axis(title=axis, values=values, labelExpr=plain))
    tall = alt.Scale(domain=[len(rows), 0], nice=False)
    data = [
        {
            "x": 100 * at,
            "y": i + 0.92 - 0.84 * height,
            "z": i + 0.92,
            "k": i,
            "h": row.hint,
            "c": OURS if row.role == "ours" else OTHER,
        }
        for i, row in enumerate(rows)
        for at, height in outline(row.deviations, edge, bins)
    ]
    shapes = _data(data).mark_area(interpolate="step-after", opacity=1)
    layers = [
        shapes.encode(
            x=x, y=alt.Y("y:Q", scale=tall, axis=None), y2=alt.Y2("z:Q"), detail=alt.Detail("k:N"),
            color=alt.Color("c:N", scale=None), description=alt.Description("h:N"),
        )
    ]  # fmt: skip
    middle = _data([{"x": 0}]).mark_rule(color=INK, strokeDash=[4, 3], aria=False).encode(x=x)
    names = [Bar(r.name, r.text, role=r.role if not r.noisy else "bad") for r in rows]
    return _finished(
        [*layers, middle, *_names(rows, tall), *_values(names, tall)], PLOT, (ROW + 4) * len(rows), NAMES, TEXTS
    )


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


def over_sizes(lines: Sequence[Line], marks: Sequence[Mark], axes: tuple[str, str]) -> Spec:
    """Lines over a logarithmic axis of sizes, each with its name at the right end."""
    xs = [x for line in lines for x, _ in line.points]
    top = 1.06 * max(y for line in lines for _, y in line.points)
    x_scale = alt.Scale(type="log", domain=[min(xs), max(xs)], nice=False)
    y_scale = alt.Scale(domain=[0, top], nice=False)
    x_axis = alt.Axis(title=axes[0], labelExpr=SHORT, values=_powers(min(xs), max(xs), first=min(xs)))
    inside = [m for m in marks if min(xs) < m.x < max(xs)]
    x, y = alt.X("x:Q", scale=x_scale, axis=x_axis), alt.Y("y:Q", scale=y_scale, axis=alt.Axis(title=axes[1]))
    layers = [
        *_vertical(inside, x_scale),
        *_strokes(lines, x, y),
        *_ends([(max(line.points)[1], line) for line in lines], y_scale, lambda v: v / top, lambda share: top * share),
    ]
    return _finished(layers, LONG, DEEP, 58, 152, top=8 + APART * len(inside))


def errors(lines: Sequence[Line], axes: tuple[str, str], constants: tuple[float, float]) -> Spec:
    """Errors over inputs, both axes symmetrically logarithmic beyond `constants`."""
    xs = [x for line in lines for x, _ in line.points] or [0.0, 1.0]
    top = 2 * max((y for line in lines for _, y in line.points), default=1.0) or 1.0
    x_scale = alt.Scale(type="symlog", constant=constants[0], domain=[min(xs), max(xs)], nice=False)
    y_scale = alt.Scale(type="symlog", constant=constants[1], domain=[0, top], nice=False)
    x_ticks = _thinned(_powers(min(xs), max(xs), constants[0]), constants[0], min(xs), max(xs))
    y_ticks = _thinned(_powers(0, top), constants[1], 0, top)
    x = alt.X("x:Q", scale=x_scale, axis=alt.Axis(title=axes[0], values=x_ticks, labelExpr=LONGER))
    y = alt.Y("y:Q", scale=y_scale, axis=alt.Axis(title=axes[1], values=y_ticks, labelExpr=SHORT))

    def share(value: float) -> float:
        return log1p(value / constants[1]) / log1p(top / constants[1])

    def value(share: float) -> float:
        return constants[1] * expm1(share * log1p(top / constants[1]))

    tops = [max(line.points, key=lambda point: point[1]) for line in lines]
    reach = [{"x": at, "y": peak, "c": style_of(line.style)[0]} for (at, peak), line in zip(tops, lines)]
    level = _data(reach).mark_rule(opacity=0.45, strokeDash=[1, 3], aria=False)
    layers = [
        level.encode(x=x, y=y, x2=alt.X2Value(LONG), color=alt.Color("c:N", scale=None)),
        *_strokes(lines, x, y, points=False),
        *_absent(lines, x, y, top),
        *_ends([(peak, line) for (_, peak), line in zip(tops, lines)], y_scale, share, value),
    ]
    return _finished(layers, LONG, DEEP, 58, 152)


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
        _data(rows)
        .mark_line(aria=False)
        .encode(x=x, y=y, color=hue, order=order, detail=alt.Detail("k:N"),
                strokeDash=alt.StrokeDash("d:N", scale=None), strokeWidth=alt.StrokeWidth("w:Q", scale=None))
    ]  # fmt: skip
    if dots:
        layers.append(
            _data(dots)
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
    crosses = _data(rows).mark_point(shape="cross", size=50, opacity=1)
    look = {"color": alt.Color("c:N", scale=None), "description": alt.Description("h:N")}
    return [crosses.encode(x=x, y=y, **look)] if rows else []


def _vertical(marks: Sequence[Mark], scale: alt.Scale) -> list[Any]:
    """Dotted lines, each with its name above the chart, in a row of its own."""
    layers: list[Any] = []
    for i, mark in enumerate(sorted(marks, key=lambda mark: mark.x)):
        data, x = _data([{"x": mark.x, "t": mark.name}]), alt.X("x:Q", scale=scale)
        up = -6 - APART * i
        layers.append(data.mark_rule(color=MUTED, strokeDash=[2, 3], aria=False).encode(
            x=x, y=alt.YValue(up + 7), y2=alt.Y2Value(DEEP)))  # fmt: skip
        text = data.mark_text(color=MUTED, fontSize=SIZE - 1, aria=False)
        layers.append(text.encode(x=x, y=alt.YValue(up), text=alt.Text("t:N")))
    return layers


def _ends(
    ends: Sequence[tuple[float, Line]],
    scale: alt.Scale,
    share: Callable[[float], float],
    value: Callable[[float], float],
) -> list[Any]:
    """Names at the right, at the height given with each line, moved apart where they would overlap.

    `share` maps a value to its share of the height, `value` a share to its value.
    """
    ends = sorted(ends, key=lambda end: -end[0])
    places = spread([DEEP * (1 - share(y)) for y, _ in ends], APART, DEEP)
    rows = [
        {"y": y, "z": value(1 - place / DEEP), "t": line.name, "b": line.emphasis,
         "c": INK if line.ceiling else style_of(line.style)[0]}
        for (y, line), place in zip(ends, places)
    ]  # fmt: skip
    colour, right = alt.Color("c:N", scale=None), LONG
    leader = _data(rows).mark_rule(opacity=0.6, strokeWidth=1, aria=False)
    span = {"x": alt.XValue(right + 1), "x2": alt.X2Value(right + 12), "y2": alt.Y2("z:Q")}
    layers = [leader.encode(y=alt.Y("y:Q", scale=scale), color=colour, **span)]
    for bold in (True, False):
        text = _data([row for row in rows if row["b"] is bold]).mark_text(
            align="left", fontSize=SIZE, fontWeight="bold" if bold else "normal", aria=False
        )
        place = {"x": alt.XValue(right + 15), "y": alt.Y("z:Q", scale=scale)}
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


def _names(rows: Sequence[Bar | Strip], scale: alt.Scale | None = None) -> list[Any]:
    """Names at the left, ours bold."""
    return [
        _texts([(i, r.name) for i, r in enumerate(rows) if (r.role == "ours") is ours], len(rows), scale)
        .mark_text(align="right", fontSize=SIZE, fontWeight="bold" if ours else "normal", color=INK, aria=False)
        .encode(x=alt.XValue(-MARGIN))
        for ours in (True, False)
        if any((r.role == "ours") is ours for r in rows)
    ]


def _values(rows: Sequence[Bar], scale: alt.Scale | None = None) -> list[Any]:
    """What is written at the right; of a row that went wrong in its colour."""
    texts = _texts([(i, r.text) for i, r in enumerate(rows)], len(rows), scale, [r.role == "bad" for r in rows])
    texts = texts.mark_text(align="left", fontSize=SIZE, aria=False)
    return [texts.encode(x=alt.XValue(PLOT + MARGIN), color=alt.Color("c:N", scale=None))]


def _texts(texts: list[tuple[int, str]], n: int, scale: alt.Scale | None, bad: Sequence[bool] = ()) -> alt.Chart:
    """Texts in the middles of rows, whether these are steps of a discrete scale or units of a continuous one."""
    shift = 0 if scale is None else 0.55
    rows = [{"i": i + shift, "t": text, "c": BAD if bad and bad[i] else INK} for i, text in texts]
    y = _row(n) if scale is None else alt.Y("i:Q", scale=scale, axis=None)
    return _data(rows, y=y).encode(text=alt.Text("t:N"))


def _row(n: int) -> alt.Y:
    return alt.Y("i:O", axis=None, scale=alt.Scale(domain=list(range(n)), paddingInner=0.34, paddingOuter=0.17))


class Rows(str):
    """Data of a layer, disguised as text: Altair would spend most of its time on validating and copying it."""

    values: list[dict[str, Any]]

    @classmethod
    def of(cls, values: list[dict[str, Any]]) -> Rows:
        rows = cls()
        rows.values = values
        return rows


def _data(rows: list[dict[str, Any]], **encoding: Any) -> alt.Chart:
    return alt.Chart(alt.Data(values=Rows.of(rows))).encode(**encoding)


def _powers(low: float, high: float, constant: float = 1, first: float = inf) -> list[float]:
    """Powers of ten within [low, high] as ticks of a logarithmic axis; of a symmetric one also 0 and negative ones."""
    powers = [10.0**k for k in range(-6, 40)]
    found = [p for p in powers if p >= min(constant, first) and low <= p <= high]
    below = [-p for p in reversed(powers) if p >= constant and low <= -p <= high]
    return [*below, *([0.0] if low <= 0 <= high else []), *found]


def _thinned(ticks: list[float], constant: float, low: float, high: float, most: int = 9) -> list[float]:
    """Those ticks of a symmetrically logarithmic axis that are far enough apart."""

    def place(value: float) -> float:
        return copysign(log1p(abs(value) / constant), value)

    gap = (place(high) - place(low)) / most
    kept: list[float] = []
    for tick in sorted(ticks, key=lambda t: (t != 0, abs(t))):
        if all(abs(place(tick) - place(other)) >= gap for other in kept):
            kept.append(tick)
    return sorted(kept)


def _finished(layers: list[Any], width: int, height: int, left: int, right: int, top: int = 8) -> Spec:
    """Layers as one specification in the lab's style, with fixed margins that do not depend on installed fonts."""
    spec: Spec = alt.layer(*layers).to_dict(validate=False)
    for layer in (spec, *spec["layer"]):
        if "data" in layer:
            layer["data"] = {"values": layer["data"]["values"].values}
    spec |= {
        "width": width,
        "height": height,
        "autosize": "none",
        "padding": {"left": left, "right": right, "top": top, "bottom": 40},
        "config": CONFIG,
    }
    del spec["$schema"]
    return spec


@contextmanager
def unchecked() -> Iterator[None]:
    """Turn off Altair's validation, which takes most of its time. The tests make every chart with validation."""
    from altair.utils.schemapi import debug_mode

    with debug_mode(False):
        yield
