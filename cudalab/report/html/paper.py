"""Draws on a sheet, as SVG: scales, axes, lines, shapes and texts.

Every chart is drawn here and nowhere else. A text is escaped, a colour is one of the palette, and everything else is a
number, so that a results file cannot add markup. Coordinates are pixels from the upper left corner of the plot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, copysign, floor, inf, isfinite, log1p, log10

from cudalab.report.html import text_width
from cudalab.report.html.palette import GRID, INK, MUTED

SIZE = 12  # of a text
NAMED = 180  # pixels that a name in a chart has at most
TICKS = SIZE - 1  # of a number at an axis
LONG = 16  # characters of a text that says its own width
APART = 6  # pixels between two numbers at an axis
Path = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Scale:
    """Maps numbers from `low` to `high` to pixels from `start` to `end`.

    `kind` is linear, log, or symlog: symmetrically logarithmic beyond `constant`, and linear around 0.
    """

    low: float
    high: float
    start: float
    end: float
    kind: str = "linear"
    constant: float = 1.0

    def __call__(self, value: float) -> float:
        low, high = self._bent(self.low), self._bent(self.high)
        share = (self._bent(value) - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.end - self.start)

    def _bent(self, value: float) -> float:
        if self.kind == "linear":
            return value
        return log10(value) if self.kind == "log" else copysign(log1p(abs(value) / self.constant), value)


class Paper:
    """A sheet of `width` x `height` pixels with margins around; `svg` is what has been drawn on it."""

    def __init__(self, width: float, height: float, left: float, right: float, top: float = 8, bottom: float = 40):
        self.width, self.height = width, height
        self.margins = left, right, top, bottom
        self._parts: list[str] = []

    def svg(self) -> str:
        """The drawing as an `<svg>` element."""
        left, right, top, bottom = self.margins
        wide, high = _px(left + self.width + right), _px(top + self.height + bottom)
        return (
            f'<svg width="{wide}" height="{high}" viewBox="0 0 {wide} {high}"><g transform="translate({_px(left)},'
            f'{_px(top)})" fill="{INK}" font-size="{SIZE}">{"".join(self._parts)}</g></svg>'
        )

    def lines(
        self, paths: Iterable[Path], colour: str, thick: float = 1, dash: Sequence[int] = (), faint: float = 1
    ) -> None:
        """Lines through points, all of one look."""
        drawn = "".join(map(_line, paths))
        look = f' stroke-dasharray="{",".join(map(str, dash))}"' if dash else ""
        look += f' stroke-width="{thick:g}"' if thick != 1 else ""
        look += f' opacity="{faint:g}"' if faint != 1 else ""
        if drawn:
            self._parts.append(f'<path d="{drawn}" fill="none" stroke="{colour}"{look}/>')

    def staircase(self, corners: Path, base: float, fill: str, says: str = "") -> None:
        """A filled shape on `base`: from each corner on it is as high as that; `says` is shown under a pointer."""
        drawn = "".join(f"H{_px(x)}V{_px(y)}" for x, y in corners)
        self._parts.append(f'<path d="M{_px(corners[0][0])},{_px(base)}{drawn}Z" fill="{fill}">{_title(says)}</path>')

    def bar(self, x: float, y: float, wide: float, high: float, fill: str, says: str = "", edge: str = "") -> None:
        look = f' stroke="{edge}"' if edge else ""
        path = f"M{_px(x)},{_px(y)}h{_px(wide)}v{_px(high)}h{_px(-wide)}Z"
        self._parts.append(f'<path d="{path}" fill="{fill}"{look}>{_title(says)}</path>')

    def mark(self, x: float, y: float, shape: str, reach: float, fill: str, says: str = "", edge: str = "") -> None:
        """A circle, or one of SHAPES, around a point; `reach` is half of its width."""
        look = f'fill="{fill}"' + (f' stroke="{edge}"' if edge else "")
        if shape == "circle":
            self._parts.append(f'<circle cx="{_px(x)}" cy="{_px(y)}" r="{_px(reach)}" {look}>{_title(says)}</circle>')
            return
        path = "L".join(f"{_px(x + reach * a)},{_px(y + reach * b)}" for a, b in SHAPES[shape])
        self._parts.append(f'<path d="M{path}Z" {look}>{_title(says)}</path>')

    def text(
        self, x: float, y: float, text: str, anchor: str = "start", bold: bool = False, colour: str = "",
        size: float = SIZE, angle: float = 0, link: str = "",
    ) -> None:  # fmt: skip
        """A text whose middle is at the height `y`; `link`: the id of a part of the page."""
        if not text:
            return
        look = f' text-anchor="{anchor}"' if anchor != "start" else ""
        look += ' font-weight="bold"' if bold else ""
        look += f' fill="{colour}"' if colour else ""
        look += f' font-size="{size:g}"' if size != SIZE else ""
        wide = text_width.width(text, size, bold) if len(text) >= LONG else None
        look += f' textLength="{wide:.1f}" lengthAdjust="spacingAndGlyphs"' if wide else ""
        place = f'x="{_px(x)}" y="{_px(y + 0.35 * size)}"'
        if angle:
            place = f'transform="translate({_px(x)},{_px(y)})rotate({_px(angle)})"'
        drawn = f"<text {place}{look}>{escape(text, quote=False)}</text>"
        self._parts.append(f'<a href="#{escape(link)}">{drawn}</a>' if link else drawn)

    def below(self, scale: Scale, ticks: Sequence[float], named: Callable[[float], str], title: str) -> None:
        """An axis below the plot, with lines across it; numbers that would touch others are left out."""
        places = [scale(tick) for tick in ticks]
        self.lines(([(x, 0), (x, self.height)] for x in places), GRID)
        self.lines([[(0, self.height), (self.width, self.height)]], MUTED)
        end = -inf
        for x, tick in zip(places, ticks, strict=True):
            text = named(tick)
            half = text_width.reach(text, TICKS) / 2
            if x - half >= end + APART:
                self.text(x, self.height + 12, text, "middle", colour=MUTED, size=TICKS)
                end = x + half
        self.text(self.width / 2, self.height + 30, title, "middle")

    def beside(self, scale: Scale, ticks: Sequence[float], named: Callable[[float], str], title: str) -> None:
        """An axis at the left of the plot, with lines across it."""
        places = [scale(tick) for tick in ticks]
        self.lines(([(0, y), (self.width, y)] for y in places), GRID)
        self.lines([[(0, 0), (0, self.height)]], MUTED)
        end = inf
        for y, tick in sorted(zip(places, ticks, strict=True), reverse=True):
            if y <= end:
                self.text(-5, y, named(tick), "end", colour=MUTED, size=TICKS)
                end = y - TICKS - 2
        self.text(6 - self.margins[0] + SIZE / 2, self.height / 2, title, "middle", angle=-90)


SHAPES: dict[str, Path] = {  # beside the circle
    "square": [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
    "triangle-up": [(0, -1), (1, 0.8), (-1, 0.8)],
    "triangle-down": [(0, 1), (1, -0.8), (-1, -0.8)],
    "triangle-left": [(-1, 0), (0.8, -1), (0.8, 1)],
    "triangle-right": [(1, 0), (-0.8, -1), (-0.8, 1)],
    "diamond": [(0, -1.15), (1.15, 0), (0, 1.15), (-1.15, 0)],
    "cross": [(-1, -0.3), (-0.3, -0.3), (-0.3, -1), (0.3, -1), (0.3, -0.3), (1, -0.3), (1, 0.3), (0.3, 0.3), (0.3, 1),
              (-0.3, 1), (-0.3, 0.3), (-1, 0.3)],
    "stroke": [(-1.2, -0.3), (1.2, -0.3), (1.2, 0.3), (-1.2, 0.3)],
}  # fmt: skip


def steps(high: float, most: int = 4) -> list[float]:
    """Round numbers from 0 to `high`, about `most` of them."""
    rough = high / most
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= 0.999 * rough)
    return [step * i for i in range(floor(high / step * 1.000001) + 1)]


def powers(low: float, high: float, constant: float = 1, first: float = inf) -> list[float]:
    """Powers of ten within [low, high] as ticks of a logarithmic axis; of a symmetric one also 0 and negative ones."""
    powers = [10.0**k for k in range(-45, 80)]
    found = [p for p in powers if p >= min(constant, first) and low <= p <= high]
    below = [-p for p in reversed(powers) if p >= constant and low <= -p <= high]
    return [*below, *([0.0] if low <= 0 <= high else []), *found]


def decades(low: float, high: float, most: int = 8) -> list[float]:
    """Powers of ten within the positive numbers [low, high], evenly thinned to `most`."""
    found = range(ceil(log10(low) - 1e-9), floor(log10(high) + 1e-9) + 1)
    return [10.0**k for k in found[:: max(1, ceil(len(found) / most))]]


def thinned(ticks: Sequence[float], scale: Scale, least: float) -> list[float]:
    """Those ticks of a symmetrically logarithmic axis that are `least` pixels apart, 0 among them."""
    kept: list[float] = []
    for tick in sorted(ticks, key=lambda t: (t != 0, abs(t))):
        if all(abs(scale(tick) - scale(other)) >= least for other in kept):
            kept.append(tick)
    return sorted(kept)


def short(value: float) -> str:
    """Return a number at an axis with a prefix: 10k, 1M, 20m."""
    if value == 0 or not 1e-3 <= abs(value) < 1e16:
        return "0" if value == 0 else f"{value:.0e}"
    scale, prefix = next(((s, p) for s, p in _PREFIXES if abs(value) >= 0.9999 * s), (1.0, ""))
    return f"{value / scale:.4g}{prefix}"


_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def longer(value: float) -> str:
    """Return a number at an axis without a prefix: 0.01, 1000, 1e+05."""
    return f"{value:g}" if abs(value) < 1e5 else f"{value:.0e}"


def commas(value: float) -> str:
    """Return a number at a linear axis: 0.5, 1,500."""
    return f"{value:,.10g}"


def _line(path: Path) -> str:
    """A line through points, as commands of SVG: H and V where it is level or upright."""
    said, (across, down) = "", ("", "")
    for x, y in path:
        to = _px(x), _px(y)
        command = f"H{to[0]}" if to[1] == down else f"V{to[1]}" if to[0] == across else f"L{to[0]},{to[1]}"
        said += command if said else f"M{to[0]},{to[1]}"
        across, down = to
    return said


def _px(value: float) -> str:
    """Coordinates to a tenth of a pixel."""
    if not isfinite(value):
        raise ValueError(f"a coordinate is {value}")
    return f"{round(value, 1) + 0.0:.7g}"


def _title(says: str) -> str:
    return f"<title>{escape(says, quote=False)}</title>" if says else ""
