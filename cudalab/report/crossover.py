"""The result of `cudalab crossover`: a table of sizes and a sentence."""

from __future__ import annotations

import io

from cudalab.base import numbers
from cudalab.base.stats import Ratio
from cudalab.report import columns
from cudalab.report.table import screen
from cudalab.results.record import Case
from cudalab.tools.crossover.bisect import Crossover, Probe

UNSURE = "neither surely"


def render(found: Crossover, width: int | None = None, color: bool = False) -> str:
    """The table of all sizes that were measured, and the answer below it."""
    from cudalab.report.table import columns_of, finished, plain, put

    out = io.StringIO()
    console = screen(out, width, color)
    console.print(plain(columns.heading(found.run), "bold"))
    for text in columns.warnings(found.run):
        console.print(plain(text, "bold yellow"))
    if found.probes:
        table = columns_of(headers(found), left=1)
        for row in rows(found):
            table.add_row(*map(plain, row))
        console.print()
        put(console, table)
    console.print()
    for line in sentences(found):
        console.print(plain(line, "bold red" if found.wrong else "bold"))
    return finished(out, width)


def sentences(found: Crossover) -> list[str]:
    """The answer, and further changes if there are any."""
    if found.wrong:
        case = found.wrong[0]
        return [f"stopped at {case.size}: {case.label} is {_word(case)}: {case.reason}"]
    if not found.changes:
        return [_no_change(found)]
    (low, high), *others = found.changes
    said = f"{found.ahead(low)} is faster up to {low.size}, {found.ahead(high)} from {high.size} on ({_what(found)})"
    if unsure := [p.size for p in found.probes if not found.ahead(p)]:
        said += f"; neither surely at {_list(unsure)}"
    more = [f"and again: {found.ahead(a)} up to {a.size}, {found.ahead(b)} from {b.size} on" for a, b in others]
    return [said, *more, *(["more than one change: look at all sizes with `cudalab bench --size`"] if more else [])]


def headers(found: Crossover) -> list[str]:
    return ["size", f"{found.first} \u00b5s", f"{found.second} \u00b5s", "speed-up", "interval", "faster"]


def rows(found: Crossover) -> list[list[str]]:
    """One row per size; the speed-up is that of the second variant over the first."""
    cases = {(case.size, case.label): case for case in found.run.cases}
    return [_row(found, probe, cases) for probe in found.probes]


def _row(found: Crossover, probe: Probe, cases: dict[tuple[str, str], Case]) -> list[str]:
    times = (columns.microseconds(cases[probe.size, label], found.kind) for label in (found.first, found.second))
    r = probe.ratio
    return [probe.size, *times, numbers.ratio(r), numbers.ends(r.low, r.high), found.ahead(probe) or UNSURE]


def _no_change(found: Crossover) -> str:
    low, high = found.probes[0], found.probes[-1]
    if found.ahead(low) and found.ahead(low) == found.ahead(high):
        by = " and ".join(f"{_factor(p)} at {p.size}" for p in (low, high))
        return f"{found.ahead(low)} is faster at both ends, by {by} ({_what(found)})"
    return f"no crossover: {_end(found, low)}, {_end(found, high)} ({_what(found)})"


def _end(found: Crossover, probe: Probe) -> str:
    ahead = found.ahead(probe)
    r = probe.ratio
    if not ahead:
        return f"at {probe.size} neither is surely faster ({numbers.ends(r.low, r.high)}x)"
    return f"at {probe.size} {ahead} is, by {_factor(probe)}"


def _factor(probe: Probe) -> str:
    """How many times as fast the faster variant is, with the interval."""
    r = probe.ratio
    r = r if r.value >= 1 else Ratio(1 / r.value, 1 / r.high, 1 / r.low)
    return f"{numbers.ratio(r)}x ({numbers.ends(r.low, r.high)})"


def _what(found: Crossover) -> str:
    case = found.run.cases[0]
    return f"{case.kernel}, {case.dtype}, {found.kind.replace('_', ' ')}"


def _word(case: Case) -> str:
    return {"error": "an error"}.get(case.status, case.status)


def _list(names: list[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
