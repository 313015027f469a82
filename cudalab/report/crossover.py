"""The result of `cudalab crossover`: a table of sizes and a sentence."""

from __future__ import annotations

import io

from cudalab.base import numbers
from cudalab.base.stats import SAME, Ratio
from cudalab.report import columns
from cudalab.report.table import screen
from cudalab.results.record import Case
from cudalab.tools.crossover.bisect import Crossover, Probe

EQUAL, UNSURE = "neither", "not decided"  # in place of the faster one: SAME; UNCLEAR
BUSY = "the machine was busy; run it again when the machine is idle"


def render(found: Crossover, width: int | None = None, color: bool = False) -> str:
    """Return the table of all sizes that were measured, and the answer below it."""
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
    return finished(out, width, "")


def sentences(found: Crossover) -> list[str]:
    """The answer, and further changes if there are any."""
    if found.wrong:
        case = found.wrong[0]
        return [f"stopped at {case.size}: {case.label} is {_word(case)}: {case.reason}"]
    if not found.changes:
        return [_no_change(found)]
    (low, high), *others = found.changes
    said = f"{found.ahead(low)} is faster up to {low.size}, {found.ahead(high)} from {high.size} on ({_what(found)})"
    if equal := [p.size for p in found.probes if p.verdict == SAME]:
        said += f"; equally fast at {_list(equal)}"
    if unsure := [p for p in found.probes if _unsure(found, p)]:
        why = f", since {BUSY}" if any(p.ratio.disturbed for p in unsure) else ""
        said += f"; not decided at {_list([p.size for p in unsure])}{why}"
    more = [f"and again: {found.ahead(a)} up to {a.size}, {found.ahead(b)} from {b.size} on" for a, b in others]
    return [said, *more, *(["several crossovers: time all sizes with `cudalab bench --size`"] if more else [])]


def headers(found: Crossover) -> list[str]:
    return ["size", f"{found.first} \u00b5s", f"{found.second} \u00b5s", "speed-up", "interval", "faster"]


def rows(found: Crossover) -> list[list[str]]:
    """One row per size; the speed-up is that of the second variant over the first."""
    cases = {(case.size, case.label): case for case in found.run.cases}
    return [_row(found, probe, cases) for probe in found.probes]


def _row(found: Crossover, probe: Probe, cases: dict[tuple[str, str], Case]) -> list[str]:
    times = (columns.microseconds(cases[probe.size, label], found.kind) for label in (found.first, found.second))
    r = probe.ratio
    return [probe.size, *times, numbers.ratio(r), numbers.interval(r), _faster(found, probe)]


def _faster(found: Crossover, probe: Probe) -> str:
    return found.ahead(probe) or (EQUAL if probe.verdict == SAME else UNSURE)


def _unsure(found: Crossover, probe: Probe) -> bool:
    return _faster(found, probe) == UNSURE


def _no_change(found: Crossover) -> str:
    low, high = found.probes[0], found.probes[-1]
    if found.ahead(low) and found.ahead(low) == found.ahead(high):
        by = " and ".join(f"{_factor(p)} at {p.size}" for p in (low, high))
        return f"{found.ahead(low)} is faster at both ends, by {by} ({_what(found)})"
    if any(probe.ratio.disturbed for probe in found.probes):
        return f"not decided: {BUSY} ({_what(found)})"
    so_far = " found" if any(_unsure(found, probe) for probe in (low, high)) else ""
    return f"no crossover{so_far}: {_end(found, low)}, {_end(found, high)} ({_what(found)})"


def _end(found: Crossover, probe: Probe) -> str:
    if ahead := found.ahead(probe):
        return f"at {probe.size} {ahead} is faster, by {_factor(probe)}"
    said = "which is faster is not decided" if _unsure(found, probe) else "both are equally fast"
    return f"at {probe.size} {said} ({numbers.interval(probe.ratio)}x)"


def _factor(probe: Probe) -> str:
    """How many times as fast the faster variant is, with the interval."""
    r = probe.ratio
    r = r if r.value >= 1 else Ratio(1 / r.value, 1 / r.high, 1 / r.low)
    return f"{numbers.ratio(r)}x ({numbers.interval(r)})"


def _what(found: Crossover) -> str:
    case = found.run.cases[0]
    return f"{case.kernel}, {case.dtype}, {found.kind.replace('_', ' ')}"


def _word(case: Case) -> str:
    return {"error": "an error"}.get(case.status, case.status)


def _list(names: list[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
