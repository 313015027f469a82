"""The chart of bandwidth against size, and sentences about the sweep of sizes."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

from cudalab.base import numbers
from cudalab.report import columns
from cudalab.report.html.figures import NUMBER, Figure, name, ours, part, plain, styles
from cudalab.results import record, sweep
from cudalab.results.record import Case, Results

if TYPE_CHECKING:
    from cudalab.report.html.lines import Line
    from cudalab.results.sweep import Knee

SWEEP = 3  # sizes that a fit needs


def bandwidth(run: Results, cases: list[Case], kind: str = "") -> Figure | None:
    """GB/s against bytes moved, of one kernel and dtype at two sizes or more."""
    from cudalab.report.html.lines import Line, Mark, over_sizes

    kind = kind or run.main_kind
    found: dict[str, list[Case]] = {}
    for case in cases:
        if case.times.get(kind) and case.nbytes:
            found.setdefault(case.label, []).append(case)
    if len({case.nbytes for held in found.values() for case in held}) < 2:
        return None
    style, lines = styles(cases), []
    for label, held in found.items():
        held.sort(key=lambda case: case.nbytes)
        rates = [(float(c.nbytes), (c.bandwidth(kind) or 0.0) / 1e9) for c in held]
        hints = [f"{name(c, 80)} at {plain(c.size, 40)}: {columns.bandwidth(c, kind)} GB/s" for c in held]
        copy = held[0].status == record.CEILING
        lines.append(Line(name(held[0]), rates, hints, style.get(label, 0), ours(held[0]), copy))
    l2 = run.machine.details.get("l2_bytes")
    marks = (
        [Mark(float(l2), f"L2 {l2 / 2**20:.0f} MiB")] if isinstance(l2, int) and run.machine.device == "cuda" else []
    )
    best = _best(cases, kind)
    knees = _knees(run, [case for case in cases if case.label == best], kind)
    marks += [Mark(knee.half, "half rate") for knee in knees]
    notes = (*map(_said, knees), *_overtaken(run, cases, kind, best))
    return Figure(
        f"bandwidth_{kind}", f"Bandwidth against size, {NUMBER[kind]}", _highest(lines),
        over_sizes(lines, marks, ("bytes moved (read and written)", "GB/s")), notes,
    )  # fmt: skip


def _highest(lines: Sequence[Line]) -> str:
    largest = max(line.points[-1][0] for line in lines)
    there = (line for line in lines if not line.ceiling and line.points[-1][0] == largest)
    best = max(there, key=lambda line: line.points[-1][1], default=None)
    return f"At the largest size: {best.hints[-1]}." if best else ""


def _best(cases: list[Case], kind: str) -> str:
    """The label of our fastest variant at the largest size; empty if there are too few sizes for a fit."""
    timed = [case for case in cases if case.times.get(kind)]
    largest = max(case.nbytes for case in timed)
    mine = [case for case in timed if ours(case) and case.nbytes == largest]
    few = len({case.nbytes for case in timed}) < SWEEP
    return "" if few or not mine else min(mine, key=lambda case: case.median(kind) or inf).label


def _knees(run: Results, cases: list[Case], kind: str) -> list[Knee]:
    """The fits of launch cost and bandwidth."""
    return sweep.half_performance(part(run, cases), kind)


def _said(knee: Knee) -> str:
    return (
        f"{plain(knee.label, 80)}: {numbers.three(1e6 * knee.overhead)} \u00b5s of overhead at any size, then "
        f"{numbers.three(knee.rate / 1e9)} GB/s; half of that is reached at {numbers.amount(knee.half)}B"
    )


def _overtaken(run: Results, cases: list[Case], kind: str, best: str) -> list[str]:
    """Sentences: which variants our best one overtakes as sizes grow, and which overtake it."""
    others = dict.fromkeys(c.label for c in cases if c.status != record.CEILING and c.label != best and best)
    places: dict[tuple[int, int, bool], list[str]] = {}
    for other in others:
        for c in sweep.crossings(part(run, [case for case in cases if case.label in (best, other)]), kind):
            places.setdefault((c.below, c.above, c.faster == best), []).append(plain(other, 80))
    return [
        f"{plain(best, 80)} {'overtakes' if ahead else 'is overtaken by'} {', '.join(names)} "
        f"between {below:,} and {above:,} elements"
        for (below, above, ahead), names in sorted(places.items())
    ]
