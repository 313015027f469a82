"""The chart of ratios: a mark with an interval for each, on a logarithmic axis around 1, which is the same speed.

The shape of a mark, its place beside the line at 1 and the text say the verdict; colour repeats it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cudalab.base.stats import FASTER, SAME, SLOWER, UNCLEAR, Ratio
from cudalab.report.html import text_width
from cudalab.report.html.palette import BAD, GOOD, INK, MUTED, OTHER, SURFACE
from cudalab.report.html.paper import SIZE, Paper, Scale, commas

NAMES, PLOT, TEXTS = 128, 110, 168  # widths: of the names at the left, of the marks, of the values at the right
MARGIN = 6
LINE, GAP = 15, 7  # heights of a line of text, and between two groups
END = 5  # half of the height of the stroke at the end of an interval
SMALL = SIZE - 1  # of a text that is not a headline
LOOKS = {  # of a verdict: colour, shape
    FASTER: (GOOD, "triangle-right"),
    SLOWER: (BAD, "triangle-left"),
    SAME: (OTHER, "diamond"),
    UNCLEAR: (MUTED, "circle"),
}
TICKS = (1, 2, 0.5, 4, 0.25, 1.5, 0.7, 10, 0.1, 1.2, 0.8, 100, 0.01, 1000, 0.001, 1.1, 0.9)  # most wanted first
FURTHEST = 1e4  # a ratio beyond is drawn there


@dataclass(frozen=True)
class Entry:
    """A ratio, or None, between two texts; `head`: the first of a group; `strokes`: small ones of further ratios."""

    left: str
    ratio: Ratio | None
    right: str
    bad: bool = False
    hint: str = ""
    link: str = ""
    head: bool = False
    strokes: Sequence[float] = field(default=())

    @property
    def known(self) -> Ratio | None:
        """The ratio, where it says something."""
        return self.ratio if self.ratio and not self.ratio.says_nothing else None


@dataclass(frozen=True)
class Group:
    """Entries that belong together, such as those of a kernel, and their place among the groups."""

    rank: tuple[int, float]
    entries: Sequence[Entry]


def ratios(groups: Sequence[Group], kind: str) -> str:
    """The groups below each other."""
    laid: list[tuple[float, Entry, list[str], list[str]]] = []
    y = GAP / 2
    for group in groups:
        for entry in group.entries:
            size = SIZE if entry.head else SMALL
            left = text_width.wrapped(entry.left, NAMES - MARGIN - 2, size, entry.head)
            right = text_width.wrapped(entry.right, TEXTS - MARGIN - 2, size, entry.head)
            laid.append((y, entry, left, right))
            y += LINE * max(len(left), len(right), 1)
        y += GAP
    scale = _scale([entry for _, entry, _, _ in laid])
    paper = Paper(PLOT, y, NAMES, TEXTS, top=22)
    paper.below(scale, _ticks(scale), commas, f"times as fast as the fastest rival, {kind}")
    paper.lines([[(scale(1), -4), (scale(1), y)]], INK, dash=(4, 3))
    paper.text(scale(1) - 5, -12, "slower", "end", colour=MUTED, size=SMALL)
    paper.text(scale(1) + 5, -12, "faster", colour=MUTED, size=SMALL)
    for top, entry, left, right in laid:
        _mark(paper, entry, scale, top + LINE / 2)
        size, colour = (SIZE, INK) if entry.head else (SMALL, INK if entry.link else MUTED)
        for i, text in enumerate(left):
            paper.text(-MARGIN, top + LINE * (i + 0.5), text, "end", entry.head, colour, size, link=entry.link)
        for i, text in enumerate(right):
            paper.text(PLOT + MARGIN, top + LINE * (i + 0.5), text, "start", entry.head, _said(entry), size)
    return paper.svg()


def _mark(paper: Paper, entry: Entry, scale: Scale, y: float) -> None:
    """The ratio with its interval, dashed where it holds 1, on the strokes of further ratios."""
    one = entry.known
    paper.lines(([(scale(_near(v)), y - 3), (scale(_near(v)), y + 3)] for v in entry.strokes), MUTED, faint=0.7)
    if one is None:
        return
    colour, shape = LOOKS[one.verdict()]
    hollow = one.verdict() == UNCLEAR
    reach = 5 if entry.head else 4
    paper.mark(scale(_near(one.value)), y, shape, reach, SURFACE if hollow else colour, entry.hint, colour)
    ends = [scale(_near(end)) for end in (one.low, one.high)]
    paper.lines([[(x, y) for x in ends]], INK, dash=(2, 2) if one.low <= 1 <= one.high else ())
    paper.lines(([(x, y - END), (x, y + END)] for x in ends), INK)


def _said(entry: Entry) -> str:
    """Return the colour of the text at the right."""
    if entry.bad:
        return BAD
    verdict = entry.ratio.verdict() if entry.ratio else UNCLEAR
    return INK if verdict == SAME else LOOKS[verdict][0]


def _scale(entries: Sequence[Entry]) -> Scale:
    """From the least to the largest end, with 1 inside."""
    known = [entry.known for entry in entries if entry.known]
    ends = [_near(end) for one in known for end in (one.low, one.high)]
    ends += [_near(stroke) for entry in entries for stroke in entry.strokes]
    low, high = min([*ends, 1 / 1.15]), max([*ends, 1.15])
    room = (high / low) ** 0.05
    return Scale(low / room, high * room, 0, PLOT, "log")


def _ticks(scale: Scale) -> list[float]:
    """Those of TICKS that fit."""
    kept: list[float] = []
    for tick in TICKS:
        if scale.low <= tick <= scale.high and all(abs(scale(tick) - scale(other)) >= 27 for other in kept):
            kept.append(tick)
    return sorted(kept)


def _near(value: float) -> float:
    return min(max(value, 1 / FURTHEST), FURTHEST)
