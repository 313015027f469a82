"""The chart of how GPUs of one kind differ: of each case a mark for each GPU, around the median of all."""

from __future__ import annotations

from collections.abc import Sequence

from cudalab.report import gpus
from cudalab.report.gpus import Difference
from cudalab.report.html import text_width
from cudalab.report.html.figures import Figure, plain
from cudalab.report.html.palette import BAD, INK, MUTED, OTHER
from cudalab.report.html.paper import SIZE, Paper, Scale, steps
from cudalab.results.record import Results

MOST = 40  # cases, those with the widest spread
NAMES, PLOT, TEXTS = 250, 260, 96  # widths: of the cases, of the marks, of the medians
LINE = 16  # height of a case
LEAST = 0.01  # half of the axis' width, at least


def figures(runs: Sequence[Results]) -> list[Figure]:
    """One for each run in which every GPU measured everything (`bench --every-gpu`)."""
    return [_figure(run, found) for run in runs if (found := gpus.differences(run))]


def _figure(run: Results, found: list[Difference]) -> Figure:
    widest = sorted(found, key=lambda one: one.high - one.low, reverse=True)[:MOST]
    shown = [one for one in found if one in widest]
    every = gpus.named(run, max(len(one.measured) for one in found))
    apart = len({gpu for one in found for gpu in one.apart})
    said = f"{apart} {'is' if apart == 1 else 'are'} marked as an outlier" if apart else "none is an outlier"
    if all(len(one.measured) < gpus.FEWEST for one in found):
        said = f"outliers are told of {gpus.FEWEST} or more"
    says = (
        f"Of each case a mark for each of {every}, at its median time against the median of all: to the right it is "
        f"slower, and {said}."
    )
    says += f" The {MOST} of {len(found)} cases with the widest spread." if len(found) > MOST else ""
    return Figure("gpus", f"How {every} differ", says, _drawn(shown))


def _drawn(shown: Sequence[Difference]) -> str:
    reach = max([LEAST, *(abs(end) for one in shown for end in (one.low, one.high))]) * 1.1
    scale = Scale(-reach, reach, 0, PLOT)
    paper = Paper(PLOT, LINE * len(shown), NAMES, TEXTS)
    ticks = [sign * tick for tick in steps(reach, 2) for sign in (-1, 1) if tick or sign > 0]
    paper.below(scale, sorted(ticks), lambda share: f"{100 * share:+g} %" if share else "median", "time of each GPU")
    paper.lines([[(scale(0), 0), (scale(0), paper.height)]], INK, dash=(4, 3))
    for i, one in enumerate(shown):
        y = LINE * (i + 0.5)
        case = plain(f"{one.case} {one.label}", 120)
        paper.text(-6, y, text_width.cut(case, NAMES - 12, SIZE, bold=False), "end")
        paper.lines([[(scale(one.low), y), (scale(one.high), y)]], MUTED)
        for gpu, seconds in one.measured.items():
            share = seconds / one.median - 1
            far = gpu in one.apart
            hint = f"{plain(gpu, 80)}: {100 * share:+.1f} %"
            paper.mark(scale(share), y, "diamond" if far else "circle", 5 if far else 3.5, BAD if far else OTHER, hint)
        paper.text(PLOT + 8, y, f"{gpus.microseconds(one.median)} \u00b5s", colour=MUTED)
    return paper.svg()
