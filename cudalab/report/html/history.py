"""The page of a history: the changes, a chart of each size, dtype and card, and the runs with links to their files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from cudalab.base import numbers
from cudalab.report import history
from cudalab.report.html import draw, page
from cudalab.report.html.figures import plain
from cudalab.results.record import CEILING
from cudalab.tools.history.series import History, Run, Series

if TYPE_CHECKING:
    from cudalab.report.html.lines import Line, Mark

NEWEST = 200  # runs that a chart shows at most


def render(found: History, target: Path) -> str:
    """The page, whose links lead from the folder of `target`."""
    sheet = page.style_sheet(False)
    groups = [
        {"title": plain(card), "charts": list(charts(shown))} for card, shown in history.by_card(found.series).items()
    ]
    rows = [(title, history.row(found, s)) for title, shown in history.by_card(found.series).items() for s in shown]
    return str(page.template("history.html.j2").render(
        title=history.heading(found),
        groups=groups,
        labelled=page.labelled,
        sections=history.sections(found),
        headers=history.headers(found),
        rows=rows,
        runs=[_row(run, found.store, target) for run in reversed(history.all_runs(found.series))],
        legend=history.legend(found),
        mark=draw.MARK,
        policy=f"default-src 'none'; img-src data:; style-src '{page.hashed(sheet)}'; base-uri 'none'; "
        "form-action 'none'",
        style=page.markup(sheet),
    ))  # fmt: skip


def charts(series: Sequence[Series]) -> Iterator[tuple[str, str, str]]:
    """Title, what is shown, and drawing of a chart for each size, dtype and kind of one card."""
    from cudalab.report.html.lines import over_runs

    groups: dict[tuple[str, ...], list[Series]] = {}
    for one in series:
        groups.setdefault((*one.case.group, one.kind), []).append(one)
    for (kernel, size, dtype, kind), group in groups.items():
        every = history.all_runs(group)
        places = {run.number: i for i, run in enumerate(every[-NEWEST:], max(len(every) - NEWEST, 0) + 1)}
        title = plain(f"{kernel}, {size}, {dtype}, {kind.replace('_', ' ')}", 80)
        said = (
            f"the newest {NEWEST} of {len(every):,} runs" if len(every) > NEWEST else history.counted(len(every), "run")
        )
        says = f"Times relative to the first run shown, of {said}. Dotted: the machine or a library changed, or a step."
        shown = [one for one in group if one.runs[-1].number in places]
        yield title, says, over_runs([_line(i, one, places) for i, one in enumerate(shown)], _marks(shown, places))


def _line(style: int, series: Series, places: dict[int, int]) -> Line:
    """The line of a series: its time in percent of the first that is shown."""
    from cudalab.report.html.lines import Line

    name, copy = plain(history.name(series).removeprefix("pycuda:"), 24), series.case.status == CEILING
    shown = [(run, s) for run, s in zip(series.runs, series.seconds, strict=True) if run.number in places]
    points = [(float(places[run.number]), 100 * s / shown[0][1]) for run, s in shown]
    hints = [f"{name}: {_time(s, series.kind)}, {history.when(run)} {plain(run.commit[:8], 8)}" for run, s in shown]
    steps = [places[run.number] for c in series.changes if (run := series.runs[c.at]).number in places]
    return Line(name, points, hints, style, emphasis=bool(steps), ceiling=copy)


def _time(seconds: float, kind: str) -> str:
    return f"{numbers.significant(1e6 * seconds, 4)} \u00b5s {plain(kind.replace('_', ' '), 20)}"


def _marks(group: Sequence[Series], places: dict[int, int]) -> list[Mark]:
    """Where the machine changed, and where the steps are."""
    from cudalab.report.html.lines import Mark

    found: dict[int, str] = {}
    for series in group:
        for at, differ in series.marks.items():
            if (number := series.runs[at].number) in places:
                more = f" and {len(differ) - 1} more" if len(differ) > 1 else ""
                found[places[number]] = plain(differ[0].partition(":")[0] + more, 24)
        for change in series.changes:
            if (number := series.runs[change.at].number) in places:
                found.setdefault(places[number], history.percent(change.ratio))
    return [Mark(at - 0.5, text) for at, text in sorted(found.items())]


def _row(run: Run, store: str, target: Path) -> dict[str, Any]:
    """A run in the table, with the address of its file from the page; "" for a file that is gone."""
    folder = os.path.dirname(os.path.abspath(target))
    file = history.path(run, store, folder)
    there = run.file and os.path.exists(os.path.join(folder, file))
    driver = str(run.machine.details.get("driver", ""))
    return {
        "file": file, "address": quote(file, errors="surrogateescape") if there else "", "gone": run.file and not there,
        "cells": [str(run.number), history.when(run), run.commit[:12], run.machine.name, driver],
    }  # fmt: skip
