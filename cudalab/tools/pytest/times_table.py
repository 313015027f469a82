"""The table of times at the end of a pytest session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cudalab.base import numbers
from cudalab.results import record
from cudalab.results.record import Case, Results
from cudalab.tools.pytest.timed import WALL
from cudalab.tools.pytest.timings import Rows, Timings

NONE = "-"


def write(terminal: pytest.TerminalReporter, timings: Timings) -> None:
    """Write the rows of each group, what the files are, and what went wrong with them."""
    if timings.run is None:
        for problem in timings.problems:
            terminal.write_line(f"cudalab: {problem}", yellow=True)
        return
    terminal.section(f"cudalab times: {timings.run.machine.name}")
    for rows, kind in timings.kinds.items():
        for line in _group(timings, timings.run, rows, kind):
            terminal.write_line(line)
    if WALL in timings.kinds.values():
        terminal.write_line("wall times of a CPU: host rows are checked and not timed; a verdict needs a factor of 2")
    for path in filter(None, (timings.save, timings.json)):
        if not timings.problems:
            terminal.write_line(f"wrote {path}")
    for problem in timings.problems:
        terminal.write_line(f"cudalab: {problem}", red=True)


def _group(timings: Timings, run: Results, rows: Rows, kind: str) -> Iterator[str]:
    """One group as lines, its columns aligned: the fastest row first, those without a time last."""
    cases = [c for c in run.cases if c.group == rows and c.status not in (record.CEILING, record.SKIPPED)]
    cases.sort(key=lambda case: case.median(kind) or float("inf"))
    compared = any(group == rows for group, _, _ in timings.pairs)
    head = [" ".join(rows), f"{kind.replace('_', ' ')} \u00b5s", "95 % interval", "x eager"]
    head += [f"than in {timings.path}"] if compared else []
    table = [head, *(_cells(timings, run, case, kind, compared) for case in cases)]
    widths = [max(len(line[i]) for line in table) for i in range(len(head))]
    yield ""
    for i, line in enumerate(table):
        first, *others = (("  " if i else "") + line[0], *line[1:])
        yield "  ".join([first.ljust(widths[0] + 2), *(c.ljust(w) for c, w in zip(others, widths[1:]))]).rstrip()
    if timings.baseline and rows in timings.new:
        yield f"  not in {timings.path}: nothing to compare with"


def _cells(timings: Timings, run: Results, case: Case, kind: str, compared: bool) -> list[str]:
    timing = run.timing(case, kind)
    if not timing:
        what = "right, not timed" if case.status == record.OK else case.status
        return [case.label, what, *[NONE] * (3 if compared else 2)]
    low, high = (1e6 * end for end in timing.interval)
    base = run.baseline(case)
    ratio = run.speedup(case, kind) if base is not case else None
    found = [
        case.label, numbers.supported(1e6 * timing.median, timing.width), numbers.ends(low, high),
        numbers.with_ends(ratio) if ratio else NONE,
    ]  # fmt: skip
    pair = timings.pairs.get((case.group, case.label, kind))
    verdict = f"{numbers.with_ends(pair.ratio)} {pair.verdict}" if pair else NONE
    return [*found, verdict] if compared else found
