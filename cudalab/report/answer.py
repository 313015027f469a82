"""What came of one group in a sentence: right or wrong, how fast, against whom."""

from __future__ import annotations

from math import inf

from cudalab.base import numbers
from cudalab.base.stats import FASTER
from cudalab.report import columns
from cudalab.results import record
from cudalab.results.record import Case, Results

CLOSE = 2  # the most rows that are named where none is surely the fastest


def sentence(run: Results, cases: list[Case]) -> str:
    """The answer of one group; of a group that was only checked how many rows are right."""
    bad: dict[str, list[str]] = {}
    for case in cases:
        if case.status in record.BROKEN:
            bad.setdefault(case.status, []).append(case.label)
    right = sum(case.status == record.OK for case in cases)
    said = [f"{len(labels)} {status} ({', '.join(labels)})" for status, labels in bad.items()]
    every = "right" if right == 1 else f"all {right} right"
    said.append(f"{right} right" if bad else every if right else "nothing that runs here")
    return ", ".join(said) + (f"; {times}" if (times := _times(run, cases)) else "")


def _times(run: Results, cases: list[Case]) -> str:
    kind = run.main_kind
    timed = sorted(
        (c for c in cases if c.status == record.OK and c.times.get(kind)), key=lambda c: c.median(kind) or inf
    )
    if not timed:
        return ""
    mine = [c for c in timed if c.backend in record.ENTRIES]
    peers = [c for c in timed if c.backend not in record.ENTRIES]
    if mine and peers and not run.of_study:
        return f"{_time(run, mine[0], cases)}, {_against(run, mine[0], peers[0], cases)}"
    library = "" if mine or run.of_study else " library"
    first, *others = timed
    if not others:
        return _time(run, first, cases)
    if run.ratio(others[0], first, kind).disturbed:
        return f"shortest time, on a busy machine: {_time(run, first, cases)}"
    close = [c for c in others if run.ratio(c, first, kind).verdict() != FASTER]
    if not close:
        return f"fastest{library}: {_time(run, first, cases)}, {_against(run, first, others[0], cases)}"
    names = [_time(run, c, cases) for c in (first, *close)][:CLOSE]
    more = len(close) + 1 - len(names)
    return f"fastest{library} uncertain: {' or '.join(names)}{f' or {more} more' if more else ''}"


def _time(run: Results, case: Case, cases: list[Case]) -> str:
    unit, seconds = columns.unit(run, cases, run.main_kind)
    timing = case.timing(run.main_kind)
    assert timing
    marks = columns.marks(run, case, cases)
    return f"{case.label} {numbers.supported(timing.median / seconds, timing.width)}{marks} {unit}"


def _against(run: Results, case: Case, peer: Case, cases: list[Case]) -> str:
    ratio = run.ratio(peer, case, run.main_kind)
    other = _time(run, peer, cases)
    if ratio.says_nothing:
        return f"{other}: too rough to compare"
    ends = numbers.ends(ratio.low, ratio.high)
    return f"{numbers.ratio(ratio)} times as fast as {other} ({ends}, {ratio.verdict()})"
