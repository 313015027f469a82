"""What all charts share: the style, the data of a layer, ticks, and the finished Vega-Lite specification."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import copysign, inf, log1p
from typing import Any

import altair as alt

from cudalab.report.html.draw import FONT
from cudalab.report.html.palette import GRID, INK, MUTED

Spec = dict[str, Any]

SIZE = 12  # of a text
SHORT = "format(datum.value, '~s')"  # of a tick: 10k, 1M
LONGER = "format(datum.value, abs(datum.value) < 1e5 ? '~r' : '~e')"  # 0.01, 1000, 1e+5
CONFIG = {
    "font": FONT,
    "background": "transparent",
    "view": {"stroke": None},
    "axis": {
        "aria": False, "domainColor": MUTED, "gridColor": GRID, "tickColor": MUTED, "labelColor": MUTED,
        "titleColor": INK, "labelFontSize": SIZE - 1, "titleFontSize": SIZE, "titleFontWeight": "normal",
        "labelLimit": 0, "titleLimit": 0, "labelOverlap": True, "labelSeparation": 6, "minExtent": 0, "titlePadding": 6,
    },
}  # fmt: skip


class Rows(str):
    """Data of a layer, disguised as text: Altair would spend most of its time on validating and copying it."""

    values: list[dict[str, Any]]

    @classmethod
    def of(cls, values: list[dict[str, Any]]) -> Rows:
        rows = cls()
        rows.values = values
        return rows


def chart_of(rows: list[dict[str, Any]], **encoding: Any) -> alt.Chart:
    return alt.Chart(alt.Data(values=Rows.of(rows))).encode(**encoding)


def powers(low: float, high: float, constant: float = 1, first: float = inf) -> list[float]:
    """Powers of ten within [low, high] as ticks of a logarithmic axis; of a symmetric one also 0 and negative ones."""
    powers = [10.0**k for k in range(-6, 40)]
    found = [p for p in powers if p >= min(constant, first) and low <= p <= high]
    below = [-p for p in reversed(powers) if p >= constant and low <= -p <= high]
    return [*below, *([0.0] if low <= 0 <= high else []), *found]


def thinned(ticks: list[float], constant: float, low: float, high: float, most: int = 9) -> list[float]:
    """Those ticks of a symmetrically logarithmic axis that are far enough apart."""

    def place(value: float) -> float:
        return copysign(log1p(abs(value) / constant), value)

    gap = (place(high) - place(low)) / most
    kept: list[float] = []
    for tick in sorted(ticks, key=lambda t: (t != 0, abs(t))):
        if all(abs(place(tick) - place(other)) >= gap for other in kept):
            kept.append(tick)
    return sorted(kept)


def finished(layers: list[Any], width: int, height: int, left: int, right: int, top: int = 8) -> Spec:
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
