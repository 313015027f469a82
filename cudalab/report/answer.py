"""What came of one group in a sentence: right or wrong, how fast, against whom."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from cudalab.base import numbers
from cudalab.base.stats import FASTER
from cudalab.report import columns
from cudalab.results import comparable, marks, record
from cudalab.results.record import Case, Results

CLOSE = 2  # the most rows that are named where none is surely the fastest


def sentence(run: Results, cases: list[Case]) -> str:
    """The answer of one group; of a group that was only checked how many rows are right."""
    said, right = _answers(cases)
    every = "right" if right == 1 else f"all {right} right"
    said.append(f"{right} right" if said else every if right else _none(cases))
    return ", ".join(said) + (f"; {times}" if (times := _times(run, cases)) else "")


def short(run: Results, cases: list[Case]) -> str:
    """Return the same in fewer words, for a line of 80 columns: of the times our fastest, or the fastest of all."""
    said, right = _answers(cases)
    text = ", ".join([*said, f"{right} right"] if said or right else [_none(cases)])
    order = timed(run, cases)
    mine = [c for c in order if c.backend in record.ENTRIES] if not run.of_study else []
    peers = [c for c in order if c.backend not in record.ENTRIES]
    if order:
        text += f"; {_time(run, (mine or order)[0], cases)}"
    if mine and peers:
        ratio = run.ratio(peers[0], mine[0], run.main_kind, chosen=True)
        text += f", {numbers.ratio(ratio)} x {peers[0].label}"
    return f"{text} (busy)" if order and _busy(run) else text


def _none(cases: list[Case]) -> str:
    """What to say of a group none of whose rows is right or wrong."""
    return "skipped" if cases and all(c.backend in record.ENTRIES for c in cases) else "no variant runs here"


def _answers(cases: list[Case]) -> tuple[list[str], int]:
    """What is wrong, by status, and how many rows are right."""
    bad: dict[str, list[str]] = {}
    for case in cases:
        if case.status in record.BROKEN:
            bad.setdefault(case.status, []).append(case.label)
    said = [f"{len(labels)} {status} ({', '.join(labels)})" for status, labels in bad.items()]
    return said, sum(case.status == record.OK for case in cases)


def timed(run: Results, cases: Sequence[Case]) -> list[Case]:
    """The right rows that have the main time, fastest first; without those of an earlier `.cu`. The order is that of
    the first process: the others judge it.
    """
    kind = run.main_kind
    found = [c for c in cases if c.status == record.OK and c.times.get(kind) and not c.old]
    return sorted(found, key=lambda c: taken.first if (taken := c.timing(kind)) else inf)


def _busy(run: Results) -> bool:
    """Whether other programs have disturbed the main times."""
    return bool(run.busy) and comparable.of_host(run.main_kind)


def _times(run: Results, cases: list[Case]) -> str:
    kind, order = run.main_kind, timed(run, cases)
    if not order:
        return ""
    mine = [c for c in order if c.backend in record.ENTRIES]
    peers = [c for c in order if c.backend not in record.ENTRIES]
    if mine and peers and not run.of_study:
        return f"{_time(run, mine[0], cases)}, {_against(run, mine[0], peers[0], cases)}"
    library = "" if mine or run.of_study else " library"
    first, *others = order
    if _busy(run):
        return f"{'shortest time' if others else 'time'}, on a busy machine: {_time(run, first, cases)}"
    if not others:
        return _time(run, first, cases)
    close = [c for c in others if run.ratio(c, first, kind, chosen=True).verdict() != FASTER]
    if not close:
        return f"fastest{library}: {_time(run, first, cases)}, {_against(run, first, others[0], cases)}"
    names = [_time(run, c, cases) for c in (first, *close)][:CLOSE]
    more = len(close) + 1 - len(names)
    return f"fastest{library} uncertain: {' or '.join(names)}{f' or {more} more' if more else ''}"


def _time(run: Results, case: Case, cases: list[Case]) -> str:
    unit, seconds = columns.unit(run, cases, run.main_kind)
    timing = case.timing(run.main_kind)
    assert timing
    return (
        f"{case.label} {numbers.supported(timing.median / seconds, timing.width)}{marks.signs(run, case, cases)} {unit}"
    )


def _against(run: Results, case: Case, peer: Case, cases: list[Case]) -> str:
    ratio = run.ratio(peer, case, run.main_kind, chosen=True)
    other = _time(run, peer, cases)
    if ratio.says_nothing:
        return f"{other}: too imprecise to compare"
    ends = numbers.interval(ratio)
    return f"{numbers.ratio(ratio)} times as fast as {other} ({ends}, {ratio.verdict()})"
