"""Names beside a chart: marks that lie on each other have one label, which names all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from cudalab.report.html import text_width
from cudalab.report.html.paper import SIZE, Paper

T = TypeVar("T")

APART = 14  # pixels between the middles of two names
NEAR = 4.0  # pixels: what is nearer cannot be told apart
OFF = 16  # pixels from the plot to a name
LEAST, MOST = 152, 200  # widths of the margin that names stand in
BETWEEN = 4  # pixels between two labels, beyond APART


@dataclass(frozen=True)
class Label:
    """The names of marks that lie on each other, each in its colour and bold if it is ours, beside the height `y`."""

    y: float
    names: tuple[tuple[str, str, bool], ...]

    @property
    def high(self) -> float:
        return APART * len(self.names) + (BETWEEN if len(self.names) > 1 else 0)


def together(items: Iterable[T], apart: Callable[[T, T], float], near: float = NEAR) -> list[list[T]]:
    """Groups of items that are all at most `near` pixels apart from each other, in the order of the first of each."""
    found: list[list[T]] = []
    for item in items:
        for group in found:
            if all(apart(item, other) <= near for other in group):
                group.append(item)
                break
        else:
            found.append([item])
    return found


def margin(names: Iterable[tuple[str, bool]]) -> float:
    """The width of the margin in which these names stand; whether each is bold."""
    return min(max(LEAST, *(OFF + 3 + text_width.reach(name, SIZE, bold) for name, bold in names)), MOST)


def needed(labels: Sequence[Label]) -> float:
    """Pixels that a column of labels takes."""
    return sum(label.high for label in labels)


def at_right(paper: Paper, labels: Iterable[Label]) -> None:
    """Labels at the right of a chart, with a line from the place of each; moved apart where they would overlap.

    A bracket holds the names of a group together.
    """
    labels = sorted(labels, key=lambda label: label.y)
    tops = spread([label.y - label.high / 2 for label in labels], [label.high for label in labels], paper.height)
    for label, top in zip(labels, tops, strict=True):
        x, middle = paper.width + 1, top + label.high / 2
        first = label.names[0][1]
        paper.lines([[(x, label.y), (x + 11, middle)]], first, faint=0.6)
        if len(label.names) > 1:
            upper, lower = top + 3, top + label.high - 3
            paper.lines([[(x + 13, upper), (x + 11, upper), (x + 11, lower), (x + 13, lower)]], first)
        start = middle - APART * (len(label.names) - 1) / 2
        for i, (name, colour, bold) in enumerate(label.names):
            paper.text(paper.width + OFF + 1, start + APART * i, name, bold=bold, colour=colour, size=SIZE)


def spread(tops: Sequence[float], heights: Sequence[float], depth: float) -> list[float]:
    """Sorted `tops` moved as little as need be so that nothing overlaps, lies above 0 or, if there is room, below
    `depth`; two labels of one name may reach half a line beyond the plot.
    """
    out: list[float] = []
    free = -APART / 2
    for top, high in zip(tops, heights, strict=True):
        out.append(max(top, free))
        free = out[-1] + high
    limit = max(depth + APART / 2, sum(heights) - APART / 2)
    for i in reversed(range(len(out))):
        out[i] = min(out[i], limit - heights[i])
        limit = out[i]
    return out
