"""The times of a store as series: one for each case, kind of time and card, oldest run first.

Nothing is mixed in a series: runs of another driver, other libraries, options or clocks are another stretch of it, and
steps are looked for within each. What compare would not compare (`comparable.differences`) does not share a stretch.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import hypot
from typing import Any

from cudalab.base import scatter
from cudalab.base.errors import CudalabError, InputError, short, unknown
from cudalab.base.globs import split
from cudalab.results import comparable
from cudalab.results.compare import ALL, RUN
from cudalab.results.record import CEILING, COPY, FORMAT, GPU_KINDS, KINDS, OK, VERSION, Case, Machine, Results
from cudalab.tools.history import steps as find

State = tuple[int, int]  # the numbers of a machine with its libraries and options, and of its condition
NEAR = 2  # runs by which two steps that were found apart may differ in place and still be one


@dataclass(frozen=True)
class Run:
    """A recorded run."""

    number: int  # its place in the history of the whole store, from 1
    digest: str  # of the bytes of its file
    file: str  # relative to the folder of the store; empty where a later run has the same name
    created: str
    commit: str
    main: str  # its main kind of time
    place: int  # what `machine` and the options are known by
    machine: Machine
    sources: dict[str, str]


@dataclass(frozen=True)
class Change:
    """A step. `of`: what differs between the stretches on its two sides; empty for a step within one."""

    at: int  # the point, by its place in the series, that is the first after it
    seen: int  # the point with which it was found
    ratio: float  # of the time after to the time before
    of: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()  # files of the kernel that changed with this run
    parameters: tuple[str, str] | None = None  # launch parameters before and after, where they changed with it
    copy: float | None = None  # by how much the copy of as many bytes changed at the same time: the machine did


@dataclass
class Series:
    """The times of one case in one kind, on one card."""

    case: Case
    kind: str
    machine: str  # its name
    card: str  # what tells it from others of its model; empty where older files do not say it
    runs: list[Run] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    conditions: list[int] = field(default_factory=list)  # clocks, and whether the machine was busy, by number
    marks: dict[int, tuple[str, ...]] = field(default_factory=dict)  # what differs from the run before, by point
    changes: list[Change] = field(default_factory=list)

    @property
    def states(self) -> list[State]:
        return [(run.place, condition) for run, condition in zip(self.runs, self.conditions, strict=True)]

    def edited(self, at: int) -> list[str]:
        """The files of the kernel whose text differs from that of the run before; for a study, of any kernel."""
        was, now = self.runs[at - 1 if at else 0].sources, self.runs[at].sources
        if was is now:  # equal ones are one object: the store has them once
            return []
        changed = sorted(name for name in was.keys() & now.keys() if was[name] != now[name])
        own = any(name.startswith(f"{self.case.kernel}.") for name in now)
        return [name for name in changed if not own or name.startswith(f"{self.case.kernel}.")]

    @property
    def expected(self) -> float:
        """The relative deviation between runs that is expected of such times."""
        known = scatter.family(self.case.backend) if self.kind in GPU_KINDS else ""
        return hypot(RUN, scatter.expected(sorted(self.seconds)[len(self.seconds) // 2], known))


@dataclass(frozen=True)
class History:
    """What was read of a store."""

    store: str
    total: int  # runs in it
    series: list[Series]


def cases_of(store: sqlite3.Connection) -> dict[int, Case]:
    """Return every case in the store by its number."""
    query = "SELECT id, kernel, size, shape, dtype, backend, variant, of_study FROM cases ORDER BY id"
    with _whole():
        return {
            number: Case(str(kernel), str(size), tuple(json.loads(shape)), str(dtype), str(backend), str(variant),
                         status=CEILING if backend == COPY and not of_study else OK)
            for number, kernel, size, shape, dtype, backend, variant, of_study in store.execute(query)
        }  # fmt: skip


def kernels(store: sqlite3.Connection) -> list[tuple[str, int, str, str]]:
    """The kernels and studies in a store: name, number of runs, when the first and the last began."""
    query = (
        'SELECT kernel, count(DISTINCT runs.id), min(created), max(created) FROM times JOIN cases ON cases.id = "case" '
        "JOIN runs ON runs.id = run GROUP BY kernel ORDER BY kernel"
    )
    return [tuple(row) for row in store.execute(query)]


def read(
    store: sqlite3.Connection, cases: dict[int, Case], kinds: str, min_effect: float, name: str | os.PathLike[str]
) -> History:
    """The series of some cases, with their changes. `kinds`: a comma-separated list, "all", or "" for the main ones.

    Raises InputError or NotFound for a kind that the cases do not have.
    """
    with _whole():
        places = _places(store)
        runs = _runs(store, places)
        found = _points(store, cases, runs, kinds)
        conditions = {
            number: dict(json.loads(text)) for number, text in store.execute("SELECT id, text FROM conditions")
        }
    same = _Same(places, conditions)
    for series in found:
        _judge(series, same, min_effect)
    _control(found)
    return History(os.fspath(name), len(runs), found)


@contextmanager
def _whole() -> Iterator[None]:
    """Raise the error of SQLite for a damaged file where rows that were read make no sense."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, CudalabError):
            raise
        raise sqlite3.DatabaseError("its rows contradict each other") from None


def _runs(store: sqlite3.Connection, places: dict[int, Results]) -> dict[int, Run]:
    """The runs by their ids, oldest first."""
    sources = {number: dict(json.loads(text)) for number, text in store.execute("SELECT id, digests FROM sources")}
    rows = store.execute(
        "SELECT id, digest, file, created, revision, main, machine, sources FROM runs ORDER BY moment, id"
    )
    return {
        id: Run(number, digest, file, created, commit, main, place, places[place].machine, sources[of])
        for number, (id, digest, file, created, commit, main, place, of) in enumerate(rows, 1)
    }


def _places(store: sqlite3.Connection) -> dict[int, Results]:
    """What runs depend on, by number, as runs without cases, which can be compared."""
    rows = store.execute("SELECT id, device, name, details, versions, options FROM machines")
    return {
        number: Results(FORMAT, VERSION, "", dict(json.loads(options)),
                        Machine(str(device), str(name), dict(json.loads(details)), dict(json.loads(versions))),
                        kind="bench")
        for number, device, name, details, versions, options in rows
    }  # fmt: skip


def _points(store: sqlite3.Connection, cases: dict[int, Case], runs: dict[int, Run], kinds: str) -> list[Series]:
    """The series, without their changes."""
    query = 'SELECT DISTINCT kind FROM times WHERE "case" = ?'
    there = {kind for case in cases for (kind,) in store.execute(query, (case,))}
    wanted = _kinds(kinds, there)
    rows = []
    for case in cases:
        for kind in wanted or sorted(there):
            query = 'SELECT run, seconds, parameters, condition FROM times WHERE "case" = ? AND kind = ?'
            rows += [(runs[run], case, kind, *rest) for run, *rest in store.execute(query, (case, kind))]
    rows.sort(key=lambda row: row[0].number)
    found: dict[tuple[object, ...], Series] = {}
    whose: dict[tuple[int, str], tuple[object, ...]] = {}
    for run, case, kind, seconds, parameters, condition in rows:
        if not wanted and kind != run.main:
            continue
        if (run.place, kind) not in whose:
            whose[run.place, kind] = _whose(run.machine, kind)
        key = (case, kind, whose[run.place, kind])
        if key not in found:
            found[key] = Series(cases[case], kind, run.machine.name, str(run.machine.details.get("card", "")))
        series = found[key]
        series.runs.append(run)
        series.seconds.append(_positive(seconds))
        series.parameters.append(parameters)
        series.conditions.append(condition)
    _need_own(cases, [(run.main, case, kind) for run, case, kind, *_ in rows], wanted, found.values())
    newest: dict[tuple[str, str], int] = {}
    for series in found.values():
        card = series.machine, series.card
        newest[card] = max(newest.get(card, 0), series.runs[-1].number)
    groups = list(dict.fromkeys(series.case.group for series in found.values()))
    return sorted(found.values(), key=lambda s: (-newest[s.machine, s.card], groups.index(s.case.group), s.kind))


def _need_own(
    cases: dict[int, Case], times: Iterable[tuple[str, int, str]], wanted: Iterable[str], found: Iterable[Series]
) -> None:
    """Raise InputError where no series is left but those of copies. `times`: main kind of the run, case, kind."""
    own = {number: case for number, case in cases.items() if case.status != CEILING}
    if not own or any(series.case.status != CEILING for series in found):
        return
    there = [(main, kind) for main, case, kind in times if case in own]
    asked = ", ".join(wanted or sorted({main for main, _ in there}))
    kinds = ",".join(sorted({kind for _, kind in there}))
    of = ", ".join(dict.fromkeys(f"{case.kernel} {case.label}" for case in own.values()))
    raise InputError(f"no {asked} time of {short(of)}" + (f"; there are {kinds}: --kind {kinds}" if kinds else ""))


def _positive(seconds: float) -> float:
    """A time as it can be in a store. Raises ValueError or TypeError for another."""
    if not 0 < seconds < 1e13:
        raise ValueError(seconds)
    return seconds


def _whose(machine: Machine, kind: str) -> tuple[object, ...]:
    """What all runs of a series share: the card; for times that depend on the host, the host too."""
    host = comparable.HOST if comparable.of_host(kind) else ()
    return machine.device, machine.name, *(machine.details.get(name) for name in ("card", *host))


def _kinds(text: str, there: set[str]) -> tuple[str, ...]:
    """The kinds of time that are asked for; none: the main kind of each run."""
    known = [kind for kind in KINDS if kind in there] + sorted(there - set(KINDS))
    asked = split(text)
    for kind in asked:
        if kind not in (*known, ALL):
            raise unknown("kind of time in this history", kind, (*known, ALL))
    return tuple(known) if ALL in asked else asked


class _Same:
    """Which runs are alike for a series, and what differs between two. A state is a place and a condition."""

    def __init__(self, places: dict[int, Results], conditions: dict[int, dict[str, Any]]) -> None:
        self.places, self.conditions = places, conditions
        self.known: dict[tuple[State, State, bool], tuple[str, ...]] = {}

    def differences(self, old: State, new: State, kind: str) -> tuple[str, ...]:
        key = (old, new, comparable.of_host(kind))
        if key not in self.known:
            (place, condition), (other, changed) = old, new
            differ = comparable.differences(self.places[place], self.places[other], (kind,)) if place != other else []
            was, now = self.conditions[condition], self.conditions[changed]
            if "throttled" in was and "throttled" in now:
                differ += comparable.conditions(was, now)
            if comparable.of_host(kind) and was["busy"] != now["busy"]:
                differ.append(
                    comparable.Difference("machine", *("busy" if one["busy"] else "idle" for one in (was, now)))
                )
            self.known[key] = tuple(map(str, differ))
        return self.known[key]

    def stretches(self, series: Series) -> dict[State, list[int]]:
        """The points of each stretch, by the state of its first run, in the order of their first points."""
        whose: dict[State, State] = {}
        found: dict[State, list[int]] = {}
        for i, state in enumerate(series.states):
            if state not in whose:
                like = (first for first in found if not self.differences(first, state, series.kind))
                whose[state] = next(like, state)
            found.setdefault(whose[state], []).append(i)
        return found


def _judge(series: Series, same: _Same, min_effect: float) -> None:
    """Find what changed in a series: marks where the machine did, and steps within and between its stretches."""
    stretches, states = same.stretches(series), series.states
    whose = {i: state for state, points in stretches.items() for i in points}
    for i in range(1, len(states)):
        if whose[i] != whose[i - 1]:
            series.marks[i] = same.differences(states[i - 1], states[i], series.kind)
    begins: dict[State, list[int]] = {}  # of the levels within each stretch, by points
    for state, points in stretches.items():
        within = find.steps([series.seconds[i] for i in points], series.expected, min_effect)
        series.changes += [_change(series, points[s.at], points[s.seen], s.ratio) for s in within]
        begins[state] = [points[0], *(points[s.at] for s in within)]
    for state, points in stretches.items():
        first = points[0]
        if not first:
            continue
        earlier = whose[first - 1]
        level = max(begin for begin in begins[earlier] if begin < first)
        before = [series.seconds[i] for i in stretches[earlier] if level <= i < first]
        after = [series.seconds[i] for i in points if i < (begins[state][1:] or [len(states)])[0]]
        if ratio := find.between(before, after, series.expected, min_effect):
            series.changes.append(_change(series, first, points[find.WINDOWS[0] - 1], ratio, series.marks[first]))
    series.changes.sort(key=lambda change: change.at)


def _change(series: Series, at: int, seen: int, ratio: float, of: tuple[str, ...] = ()) -> Change:
    """A step, with what of the kernel changed in its first run."""
    parameters = series.parameters[at - 1], series.parameters[at]
    return Change(at, seen, ratio, of, tuple(series.edited(at)), parameters if parameters[0] != parameters[1] else None)


def _control(found: list[Series]) -> None:
    """Note at each change of a kernel that of the copy which was timed beside it."""
    copies = {(s.case.group, s.kind, s.machine, s.card): s for s in found if s.case.status == CEILING}
    for series in found:
        beside = copies.get((series.case.group, series.kind, series.machine, series.card))
        if beside is None or series is beside:
            continue
        for i, change in enumerate(series.changes):
            number = series.runs[change.at].number
            for other in beside.changes:
                near = abs(beside.runs[other.at].number - number) <= NEAR
                if near and (other.ratio > 1) == (change.ratio > 1):
                    series.changes[i] = replace(change, copy=other.ratio)
