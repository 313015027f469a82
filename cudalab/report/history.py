"""The history of kernels: a line with a trend for each series, then what changed, as text or JSON."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from cudalab.base import numbers
from cudalab.base.text import visible_json
from cudalab.report import plots
from cudalab.report.markdown import inline, tabled
from cudalab.report.table import Indented, columns_of, finished, plain, put, screen
from cudalab.results.record import CEILING
from cudalab.tools.history import steps
from cudalab.tools.history.series import Change, History, Run, Series

HEADERS = ["size", "dtype", "variant", "kind", "runs", "trend", "last \u00b5s", "last step"]
TREND = 24  # characters of a trend at most
SPAN = 0.1  # share of the time that the height of a trend spans at least: noise stays flat
NEWEST = 8  # lines of each list below the trends
MOST = 4  # steps that a line names
OVERWRITTEN = "its file was overwritten by that of a later run"
FEW = "few runs"  # so that no step could be found in the newest stretch


def render(found: History, width: int | None = None, color: bool = False, ink: plots.Ink = plots.BLOCKS) -> str:
    """The trends by card, the changes, and the newest files."""
    out = io.StringIO()
    console = screen(out, width, color)
    console.print(plain(heading(found), "bold"))
    for title, group in by_card(found.series).items():
        console.print()
        console.print(plain(title))
        table = columns_of(headers(found), left=4 + several(found))
        for series in group:
            style = "bold red" if any(change.ratio > 1 for change in series.changes[-1:]) else ""
            table.add_row(*map(plain, row(found, series, ink)), style=style)
        put(console, table, (2 + several(found), 0))
    for head, lines in (*sections(found), ("Files", files(found))):
        if lines:
            console.print()
            console.print(plain(head, "bold"))
            for line in newest(lines):
                console.print(Indented(plain(line)))
    console.print()
    for line in legend(found):
        console.print(plain(line, "dim"))
    return finished(out, width, "json")


def markdown(found: History) -> str:
    """Return the same for a page or a pull request."""
    parts = [f"**{inline(heading(found))}**"]
    for title, group in by_card(found.series).items():
        parts.append("\n".join([inline(title), "", *tabled(headers(found), [row(found, series) for series in group])]))
    for head, lines in (*sections(found), ("Files", files(found))):
        if lines:
            parts.append("\n".join([f"{head}:", "", *(f"- {inline(line)}" for line in newest(lines))]))
    return "\n\n".join(parts)


def sections(found: History) -> list[tuple[str, list[str]]]:
    """The lists below the trends, by their titles."""
    return [("Steps", changes(found)), ("Machine and libraries", marks(found)), ("Sources", sources(found))]


def heading(found: History) -> str:
    """What is shown, in a line."""
    runs = all_runs(found.series)
    kernels = ", ".join(dict.fromkeys(series.case.kernel for series in found.series))
    days = " to ".join(dict.fromkeys((runs[0].created[:10], runs[-1].created[:10])))
    return f"{kernels}: {counted(len(runs), 'run')} of {found.total} in {found.store}, {days}"


def by_card(found: Iterable[Series]) -> dict[str, list[Series]]:
    """The series by card. Copies are left out unless they changed."""
    groups: dict[str, list[Series]] = {}
    for series in found:
        if series.case.status != CEILING or series.changes:
            groups.setdefault(card(series), []).append(series)
    return groups


def card(series: Series) -> str:
    """The machine of a series, and which card of its model it is; older files do not say it."""
    if series.runs[0].machine.device != "cuda":
        return series.machine
    return f"{series.machine}, card {series.card or 'not recorded'}"


def all_runs(found: Iterable[Series]) -> list[Run]:
    """The runs of some series, oldest first."""
    return sorted({run.number: run for series in found for run in series.runs}.values(), key=lambda run: run.number)


def several(found: History) -> bool:
    """Whether several kernels are shown: the first column then names them."""
    return len({series.case.kernel for series in found.series}) > 1


def headers(found: History) -> list[str]:
    return ["kernel", *HEADERS] if several(found) else HEADERS


def row(found: History, series: Series, ink: plots.Ink = plots.BLOCKS) -> list[str]:
    """Return one row, in the order of `headers`."""
    return [series.case.kernel, *_cells(series, ink)] if several(found) else _cells(series, ink)


def _cells(series: Series, ink: plots.Ink) -> list[str]:
    """Return one row, in the order of HEADERS."""
    case = series.case
    return [
        case.size, case.dtype, name(series), series.kind.replace("_", " "), f"{len(series.runs):,}",
        trend(series, ink), numbers.significant(1e6 * series.seconds[-1], 4), state(series),
    ]  # fmt: skip


def name(series: Series) -> str:
    return "copy (ceiling)" if series.case.status == CEILING else series.case.label


def state(series: Series) -> str:
    """The last step; whether there is none, or the runs since the machine changed are too few to find one."""
    if series.changes:
        return percent(series.changes[-1].ratio)
    since = len(series.runs) - max(series.marks, default=0)
    return "none" if since >= steps.BEFORE + steps.WINDOWS[0] else FEW


def percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def trend(series: Series, ink: plots.Ink = plots.BLOCKS, most: int = TREND) -> str:
    """Times as characters, the higher the longer; each is the median of as many runs as it takes to fit.

    A bar | stands where the driver, the libraries or the options changed.
    """
    room = max(most - min(len(series.marks), most // 2), 1)
    pieces = [piece for piece in np.array_split(np.arange(len(series.seconds)), room) if len(piece)]
    levels = np.array([np.median([series.seconds[i] for i in piece]) for piece in pieces])
    middle = float(np.median(levels))
    low = min(float(levels.min()), middle * (1 - SPAN / 2))
    high = max(float(levels.max()), middle * (1 + SPAN / 2))
    heights = np.rint((levels - low) / (high - low) * (len(ink.levels) - 1)).astype(int)
    drawn = ""
    for piece, height in zip(pieces, heights, strict=True):
        bar = len(drawn) < most and any(piece[0] <= i <= piece[-1] for i in series.marks)
        drawn += ("|" if bar else "") + ink.levels[height]
    return drawn[:most]


def changes(found: History) -> list[str]:
    """A line for each run with which steps begin, oldest first."""
    together: dict[int, list[tuple[Series, Change]]] = {}
    for series in found.series:
        for change in series.changes:
            together.setdefault(series.runs[change.at].number, []).append((series, change))
    return [said(steps_, found.store, not several(found)) for _, steps_ in sorted(together.items())]


def said(together: Sequence[tuple[Series, Change]], store: str, one: bool) -> str:
    """The steps that begin with a run: how large, what else changed with it, and its file. `one`: of one kernel."""
    moved = [f"{' '.join((*s.case.group[one:], name(s), s.kind))} {percent(c.ratio)}" for s, c in together[:MOST]]
    moved += [f"{len(together) - MOST} more"] if len(together) > MOST else []
    series, change = together[0]
    before, run = series.runs[change.at - 1], series.runs[change.at]
    causes = [*change.of, *(f"{file} changed" for file in change.sources)]
    if change.parameters:
        causes.append(f"launch parameters {' -> '.join(text or 'none' for text in change.parameters)}")
    if before.commit != run.commit:
        causes.append(f"the lab's commit {before.commit[:8] or 'unknown'} -> {run.commit[:8] or 'unknown'}")
    if any(c.copy for _, c in together):
        causes.append("the copy beside it moved as well: the machine changed, and perhaps no kernel")
    return "; ".join([f"{when(run)}: {', '.join(moved)}", *causes, path(run, store)])


def marks(found: History) -> list[str]:
    """A line for each run before which the driver, a library, an option or the clocks changed."""
    return _by_run(found, lambda series, at: series.marks.get(at, ()))


def sources(found: History) -> list[str]:
    """A line for each run with another text of the kernel than the run before."""
    return _by_run(found, lambda series, at: [f"{name} changed" for name in series.edited(at)])


def _by_run(found: History, differences: Callable[[Series, int], Iterable[str]]) -> list[str]:
    lines: dict[int, dict[str, None]] = {}
    for series in found.series:
        for at, run in enumerate(series.runs):
            if differ := differences(series, at):
                lines.setdefault(run.number, {}).update(dict.fromkeys(differ))
    runs = {run.number: run for run in all_runs(found.series)}
    return [f"{when(runs[number])}: {'; '.join(lines[number])}" for number in sorted(lines)]


def files(found: History) -> list[str]:
    """The runs and their files, oldest first."""
    return [f"{when(run)} {run.commit[:8]:8} {path(run, found.store)}" for run in all_runs(found.series)]


def newest(lines: Sequence[str]) -> list[str]:
    """Return the last of the lines of a list, and how many came before."""
    more = len(lines) - NEWEST
    return ([f"{more:,} older ones: --format json has all"] if more > 0 else []) + list(lines[-NEWEST:])


def when(run: Run) -> str:
    return run.created[:16].replace("T", " ")


def path(run: Run, store: str, start: str = os.curdir) -> str:
    """Where the file of a run lies, from the folder `start`; OVERWRITTEN where it is no longer there."""
    if not run.file:
        return OVERWRITTEN
    return os.path.relpath(os.path.join(os.path.dirname(os.path.abspath(store)), run.file), start)


def legend(found: History) -> list[str]:
    lines = [
        "trend: one character a run, or the median of several, oldest first; the height spans 10 % or more. |: the "
        "driver, a library, an option or the clocks changed.",
        f"step: a change of level over {steps.WINDOWS[0]} runs or more that noise does not explain, by the trimmed "
        "means of both sides.",
    ]
    if any(state(series) == FEW for series in found.series):
        lines.append(f"{FEW}: a step is looked for from {steps.BEFORE + steps.WINDOWS[0]} runs on, on one card, with "
                     "one driver and the same libraries.")  # fmt: skip
    return lines


def as_json(found: History) -> str:
    """Every run and every time, in seconds."""
    document = {
        "format": "cudalab-history", "version": 1, "store": found.store, "total": found.total,
        "runs": [_run(run, found.store) for run in all_runs(found.series)],
        "series": [_series(series) for series in found.series],
    }  # fmt: skip
    return visible_json(json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False))


def _run(run: Run, store: str) -> dict[str, object]:
    return {
        "run": run.number, "file": path(run, store), "created": run.created, "commit": run.commit,
        "sources": run.sources,
    }  # fmt: skip


def _series(series: Series) -> dict[str, object]:
    case, number = series.case, [run.number for run in series.runs]
    return {
        "kernel": case.kernel, "size": case.size, "shape": case.shape, "dtype": case.dtype, "backend": case.backend,
        "variant": case.variant, "kind": series.kind, "machine": series.machine, "card": series.card,
        "runs": number, "seconds": series.seconds,
        "marks": [{"run": number[at], "differences": differ} for at, differ in sorted(series.marks.items())],
        "changes": [
            {"run": number[c.at], "found_with": number[c.seen], "ratio": c.ratio, "with": c.of, "sources": c.sources,
             "parameters": c.parameters, "copy": c.copy}
            for c in series.changes
        ],
    }  # fmt: skip


def counted(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def summary(kernels: Sequence[tuple[str, int, str, str]], store: str, width: int | None, color: bool) -> str:
    """The kernels that a store has: runs, first and last day."""
    out = io.StringIO()
    console = screen(out, width, color)
    table = columns_of(["kernel", "runs", "first", "last"], left=1)
    for kernel, count, first, last in kernels:
        table.add_row(*map(plain, (kernel, f"{count:,}", first[:10], last[:10])))
    console.print(plain(f"{counted(len(kernels), 'kernel')} in {store}", "bold"))
    put(console, table)
    return finished(out, width, "")
