"""Charts of rows, made with Altair: bars with intervals, and samples.

All texts are data, never expressions, so that a results file cannot run code. Names and values are beside the marks,
not in a legend. The widths are chosen so that a chart fits on a phone and can be read there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import altair as alt

from cudalab.report.html.layers import SHORT, SIZE, Spec, chart_of, finished, powers, thinned
from cudalab.report.html.palette import BAD, INK, OTHER, OURS, SURFACE

NAMES, PLOT, TEXTS = 148, 132, 126  # widths: of the names at the left, of the marks, of the values at the right
ROW = 21  # height of a row
MARGIN = 6
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


def bars(rows: Sequence[Bar], axis: str, rule: float | None = None, symlog: float = 0) -> Spec:
    """Horizontal bars from 0. `rule`: the place of a dashed line; `symlog`: the constant of that scale, 0: linear."""
    top = max((v for r in rows for v in (r.value, r.high) if v is not None), default=1.0) or 1.0
    top = max(top, rule or 0) * (1.02 if not symlog else 2)
    kind: Any = {"type": "symlog", "constant": symlog} if symlog else {}
    ticks: Any = {"tickCount": 4}
    if symlog:
        ticks = {"values": thinned(powers(0, top), symlog, 0, top, 6), "labelExpr": SHORT}
    scale = alt.Scale(domain=[0, top], nice=False, **kind)
    x = alt.X("v:Q", scale=scale, axis=alt.Axis(title=axis, **ticks))
    data = [
        {"i": i, "v": r.value, "h": r.hint, "c": ROLES[r.role], "e": INK if r.role == "copy" else ROLES[r.role]}
        for i, r in enumerate(rows)
        if r.value is not None
    ]
    edge = {"color": alt.Color("c:N", scale=None), "stroke": alt.Stroke("e:N", scale=None)}
    marks = chart_of(data, y=_row(len(rows))).mark_bar(strokeWidth=1)
    layers = [marks.encode(x=x, description=alt.Description("h:N"), **edge)]
    sure = [{"i": i, "a": r.low, "b": r.high} for i, r in enumerate(rows) if r.low is not None and r.high is not None]
    if sure:
        interval = chart_of(sure, y=_row(len(rows))).mark_rule(color=INK, aria=False)
        layers.append(interval.encode(x=alt.X("a:Q", scale=scale), x2=alt.X2("b:Q")))
        ends = chart_of([{"i": row["i"], "v": row[end]} for row in sure for end in "ab"], y=_row(len(rows)))
        layers.append(ends.mark_tick(color=INK, size=7, thickness=1, opacity=1, aria=False).encode(x=x))
    if rule is not None:
        layers.append(chart_of([{"v": rule}]).mark_rule(color=INK, strokeDash=[4, 3], aria=False).encode(x=x))
    return finished([*layers, *_names(rows), *_values(rows)], PLOT, ROW * len(rows), NAMES, TEXTS)


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
    shapes = chart_of(data).mark_area(interpolate="step-after", opacity=1)
    layers = [
        shapes.encode(
            x=x, y=alt.Y("y:Q", scale=tall, axis=None), y2=alt.Y2("z:Q"), detail=alt.Detail("k:N"),
            color=alt.Color("c:N", scale=None), description=alt.Description("h:N"),
        )
    ]  # fmt: skip
    middle = chart_of([{"x": 0}]).mark_rule(color=INK, strokeDash=[4, 3], aria=False).encode(x=x)
    names = [Bar(r.name, r.text, role=r.role if not r.noisy else "bad") for r in rows]
    return finished(
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
    return chart_of(rows, y=y).encode(text=alt.Text("t:N"))


def _row(n: int) -> alt.Y:
    return alt.Y("i:O", axis=None, scale=alt.Scale(domain=list(range(n)), paddingInner=0.34, paddingOuter=0.17))
