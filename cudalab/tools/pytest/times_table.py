"""The table of times at the end of a pytest session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cudalab.base import numbers
from cudalab.results import marks, record
from cudalab.results.record import Case, Results
from cudalab.tools.pytest.timings import WALL, Rows, Timings

NONE = "-"
THEN = "give no ratio of two rows"  # what a busy machine holds for the times


def write(terminal: pytest.TerminalReporter, timings: Timings) -> None:
    """Write the rows of each group, what the files are, and what went wrong with them."""
    if timings.run is None:
        for problem in timings.problems:
            terminal.write_line(f"cudalab: {problem}", yellow=True)
        return
    terminal.section(f"cudalab times: {timings.run.machine.name}")
    busy = marks.busy(timings.run, THEN)
    if busy:
        terminal.write_line(busy, yellow=True, bold=True)
    for rows, kind in timings.kinds.items():
        for line in _group(timings, timings.run, rows, kind):
            terminal.write_line(line)
    for line in marks.explained(_marks(timings, timings.run), disturbed=bool(busy)):
        terminal.write_line(line)
    if WALL in timings.kinds.values():
        terminal.write_line("wall times of a CPU: host rows are checked and not timed; a verdict needs a factor of 2")
    for path in (*timings.written, *filter(None, [timings.json])) if not timings.problems else ():
        terminal.write_line(f"wrote {timings.saved.shown(path)}")
    if timings.kept:
        terminal.write_line(f"the earlier {timings.save} is now {timings.saved.shown(timings.kept)}")
    for problem in timings.problems:
        terminal.write_line(f"cudalab: {problem}", red=True)


def _group(timings: Timings, run: Results, rows: Rows, kind: str) -> Iterator[str]:
    """One group as lines, its columns aligned: the fastest row first, those without a time last."""
    cases = [c for c in run.cases if c.group == rows and c.status not in (record.CEILING, record.SKIPPED)]
    cases.sort(key=lambda case: case.median(kind) or float("inf"))
    heads = (" ".join(rows), f"{kind.replace('_', ' ')} \u00b5s", "95 % interval", "x eager", f"x {timings.path}")
    cells = [_cells(timings, run, case, kind) for case in cases]
    columns = [list(column) for column in zip(heads, *cells)]
    columns = [column for column in columns if any(cell != NONE for cell in column[1:])]
    columns[0][1:] = [f"  {label}" for label in columns[0][1:]]
    widths = [max(map(len, column)) for column in columns]
    yield ""
    for line in zip(*columns):
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
    if rows in timings.new:
        yield f"  not in {timings.path}, so not compared"


def _marks(timings: Timings, run: Results) -> list[str]:
    """The marks on all times of the tables."""
    groups = run.groups()
    return [marks.signs(run, c, groups[rows], kind) for rows, kind in timings.kinds.items() for c in groups[rows]]


def _cells(timings: Timings, run: Results, case: Case, kind: str) -> tuple[str, ...]:
    """Return label, time, interval, ratio to eager PyTorch with its interval, ratio to the baseline and verdict."""
    timing = run.timing(case, kind)
    if not timing:
        return case.label, "right, not timed" if case.status == record.OK else case.status, NONE, NONE, NONE
    low, high = (1e6 * end for end in timing.interval)
    ratio = run.speedup(case, kind) if run.baseline(case) is not case else None
    pair = timings.pairs.get((case.group, case.label, kind))
    return (
        case.label,
        numbers.supported(1e6 * timing.median, timing.width) + marks.signs(run, case, run.groups()[case.group], kind),
        numbers.ends(low, high),
        numbers.with_ends(ratio) if ratio else NONE,
        f"{numbers.with_ends(pair.ratio)} {pair.verdict}" if pair else NONE,
    )
