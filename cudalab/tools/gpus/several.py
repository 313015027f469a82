"""The session of a run over several GPUs: it hands out groups, and puts their rows into one run.

    cudalab.engine.runs.bench("gelu", session=over("0,1"))

`check` and `study` take it too. A group is measured on one GPU, by the same session that measures it on a machine with
one GPU (`actor`); nothing else runs on that GPU meanwhile. What an actor loses with its process or its host is one
group, which another GPU does.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import isfinite
from time import perf_counter
from types import TracebackType

import msgspec

from cudalab.base import load
from cudalab.base.child import SLICE
from cudalab.base.errors import InputError, Unavailable
from cudalab.engine import fit, resume
from cudalab.engine.groups import Group
from cudalab.engine.messages import WORKER, Ready, Step
from cudalab.engine.options import File
from cudalab.engine.rows import failed
from cudalab.engine.selection import Rows, Way
from cudalab.engine.session import Look, Looks, Session, Told
from cudalab.results import record
from cudalab.results.record import Case, Place, Results
from cudalab.tools.gpus import chosen, ray_fleet
from cudalab.tools.gpus.actor import THREADS
from cudalab.tools.gpus.chosen import Chosen
from cudalab.tools.gpus.fleet import Fleet
from cudalab.tools.gpus.messages import Answer, Gone, Opened, Order, Report
from cudalab.tools.gpus.queue import Everywhere, Queue

OPENING = 120.0  # seconds after which a run begins with the GPUs that are open
ATTEMPTS = 2  # to open a GPU
Fleets = Callable[[Chosen, str, str], Fleet]  # (what --gpus says, address of a cluster, device)


def over(
    gpus: str, address: str = "", every: bool = False, fleets: Fleets = ray_fleet.joined
) -> Callable[..., Session]:  # fmt: skip
    """The `session` of a `bench`, `check`, `study` or `tune` over GPUs.

    `gpus` names them: "all", "0,1", or a card or a host. `address` is that of a Ray cluster; "": this host. With
    `every`, each GPU does every group: the rows are those of the first that is finished, and `Results.places` has the
    medians of all. Raises InputError for other words.
    """
    return partial(Several, gpus=Chosen.of(gpus), address=address, every=every, fleets=fleets)


@dataclass
class Several(Session):
    """A session whose workers are actors, one a GPU."""

    gpus: Chosen = field(default_factory=Chosen)
    address: str = ""
    every: bool = False  # whether each GPU does every group
    fleets: Fleets = ray_fleet.joined
    _queue: Queue[Rows[Way]] = field(default_factory=lambda: Queue([], []), init=False)
    _fleet: Fleet | None = field(default=None, init=False)
    _there: dict[int, Opened] = field(default_factory=dict, init=False)  # the GPUs that are open, by number
    _names: dict[int, str] = field(default_factory=dict, init=False)  # of GPUs that are or were there
    _opening: dict[int, int] = field(default_factory=dict, init=False)  # by number, attempts so far
    _out: dict[int, str] = field(default_factory=dict, init=False)  # GPUs that are left out, and why
    _spent: dict[int, dict[str, float]] = field(default_factory=dict, init=False)  # of each actor
    _before_death: dict[str, float] = field(default_factory=dict, init=False)  # of actors that are no more
    _rank: dict[tuple[str, ...], int] = field(default_factory=dict, init=False)  # of groups in the run's order
    _groups: Sequence[Rows[Way]] = field(default=(), init=False)  # of the run, those that are done too
    _lost: set[tuple[str, ...]] = field(default_factory=set, init=False)  # with `every`: GPU, host, and the group
    _wrong: bool = field(default=False, init=False)  # whether the run ends with a wrong entry
    _first: Opened | None = field(default=None, init=False)
    _working: float = field(default=0.0, init=False)  # when a GPU was last at work

    def __post_init__(self) -> None:
        """Refuse what several GPUs cannot do."""
        if str(self.options["device"]).startswith("cuda:"):
            raise InputError(f"--device {self.options['device']} names one GPU; leave it out beside --gpus")
        self.options |= {"gpus": self.gpus.text} | ({"every_gpu": True} if self.every else {})

    def measure(
        self, planned: Callable[[str], Sequence[Rows[Way]]], resumed: File = "", ready: Told = lambda machine: None,
        look: Looks | None = None,
    ) -> Results:  # fmt: skip
        """As `Session.measure`. Raises InputError for a second look, which is for one GPU."""
        if look:
            option = "--sanitize" if self.kind == "check" else "--cross-check"
            raise InputError(f"{option} is for one GPU; leave it out, or --gpus")
        return super().measure(planned, resumed, ready)

    def room(self, group: Group) -> fit.Room:
        """As `Session.room`, so that every GPU can do the group: of the GPU that has the least memory for it.

        The GPUs of a host share the host's memory.
        """
        labels, rooms = self.labels(group), dict[int, fit.Room]()
        for number, one in sorted(self._there.items()):
            beside = sum(other.host == one.host for other in self._there.values())
            at_once = one.count * beside if one.ready.machine.device == "cpu" else 1
            rooms[number] = fit.Room(
                one.ready.machine, one.ready.free, labels, self.setup.modes, at_once, one.most, one.memory // beside
            )
        least = min(rooms, key=lambda number: (rooms[number].within(group.fit), rooms[number].free))
        host = min((room.host for room in rooms.values() if room.host), default=0)
        what = "actors" if rooms[least].machine.device == "cpu" else "GPUs"
        said = f"the same for all {len(rooms)} {what}; none has less free memory than {self._names[least]}"
        return replace(rooms[least], host=host, said=said if len(rooms) > 1 else "")

    @property
    def ready(self) -> Ready:
        """What the first GPU said when it was opened; its machine stands for all."""
        assert self._first, "the session is not open"
        return self._first.ready

    @property
    def width(self) -> int:
        """Implements `Session.width`."""
        return len(self._there)

    # ---- actors ------------------------------------------------------------------------------------------------

    def _opened(self) -> tuple[int, int]:
        self.tell(Step(WORKER, "Ray"))
        fleet = self._fleet = self.fleets(self.gpus, self.address, str(self.options["device"]))
        try:
            if fleet.note:
                warnings.warn(fleet.note, stacklevel=2)
            for number in range(fleet.count):
                self._hire(number)
            self._wait_for(fleet)
            if not self._there:
                raise Unavailable(self._none_left())
            chosen.refuse_mixed(self._there)
        except BaseException:
            fleet.end()
            raise
        first = self._there[min(self._there)]
        self._first = msgspec.structs.replace(
            first, ready=msgspec.structs.replace(first.ready, machine=chosen.shared(self._there))
        )
        return first.count, first.most

    def _wait_for(self, fleet: Fleet) -> None:
        """Wait until all GPUs are open or left out. After `patience` warn, and wait for the first one alone."""
        limit, told = perf_counter() + self._patience, False
        while self._opening and not (told and self._there):
            for number, report in fleet.reports(SLICE):
                self._hear_of_opening(number, report)
            self.tell(Step(WORKER, f"{len(self._there)} of {fleet.count} GPUs"))
            if self._opening and not told and perf_counter() > limit:
                told = True
                warnings.warn(_not_opened(len(self._opening), fleet.count, self._patience), stacklevel=2)

    @property
    def _patience(self) -> float:
        """Seconds that an actor has for opening its GPU."""
        return max(self.timeout, OPENING) if isfinite(self.timeout) else OPENING

    def _closed(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._fleet
        self._fleet.end()

    def _hire(self, number: int) -> None:
        assert self._fleet
        setup = msgspec.structs.replace(self.setup, device=self._fleet.device, calibrate=True)
        timeout = self.timeout if isfinite(self.timeout) else None
        self._opening[number] = self._opening.get(number, 0) + 1
        fresh, threads = bool(self.options.get("fresh_caches")), os.environ.get(THREADS, "")
        chosen = self.selection
        order = Order(self.kind, setup, chosen.only, chosen.skip, self.hard, timeout, fresh, threads)
        self._fleet.hire(number, msgspec.json.encode(order))

    def _hear_of_opening(self, number: int, report: Report) -> None:
        """An actor is open, or cannot be opened: then it is tried once more, and left out if that fails too."""
        assert self._fleet
        if isinstance(report, Opened):
            chosen.refuse_shared(self._there, number, report)
            if not self.gpus.fits(report):
                why = f"--gpus {self.gpus.text} does not name it"
            else:
                why = chosen.differs(self._first, report) if self._first else ""
            if not why:
                del self._opening[number]
                self._there[number] = report
                self._names[number] = f"{report.gpu or f'CPU actor {number}'} on {report.host}"
                if self._groups:  # it comes late
                    self._queue.join(number, self._missing(number, self.results, self._groups))
                return
            if self._first and self.gpus.fits(report):
                warnings.warn(f"GPU {number} on {report.host} is left out: {why}", stacklevel=2)
        else:
            assert isinstance(report, Gone)
            if self._opening[number] < ATTEMPTS and self._there:
                self._hire(number)
                return
            why = report.reason
            if self._there:
                warnings.warn(f"GPU {number} is left out: {why}", stacklevel=2)
        self._leave_out(number, why)

    def _leave_out(self, number: int, why: str) -> None:
        assert self._fleet
        self._opening.pop(number, None)
        self._out[number] = why
        self._fleet.dismiss(number)
        self._queue.leave_out(number)

    def _none_left(self) -> str:
        reasons = "; ".join(dict.fromkeys(self._out.values())) or "none opened"
        return f"no GPU can be used: {reasons}"

    # ---- groups ------------------------------------------------------------------------------------------------

    def _fill(self, groups: Sequence[Rows[Way]], look: Look | None) -> None:
        self._groups = groups
        self._rank = {_key(group): at for at, group in enumerate(groups)}
        super()._fill(groups, look)

    def left(self, run: Results, groups: Sequence[Rows[Way]]) -> list[Rows[Way]]:
        """As `Session.left`; with `every` those that a GPU lacks, and all while it is unknown which GPUs there are."""
        if not self.every or run.complete:
            return super().left(run, groups)
        lacking = {_key(group) for number in self._there for group in self._missing(number, run, groups)}
        return [group for group in groups if not self._there or _key(group) in lacking]

    def _missing(self, number: int, run: Results, groups: Sequence[Rows[Way]]) -> list[Rows[Way]]:
        """With `every`, the groups that this GPU has not done, in an earlier run neither, nor lost in this one."""
        where = self._where(number)
        had = {(place.gpu, place.host, place.kernel, place.size, place.dtype) for place in run.places} | self._lost
        return [group for group in groups if (*where, *_key(group)) not in had]

    def _where(self, number: int) -> tuple[str, str]:
        """The GPU, as `Place.gpu` has it, and its host."""
        opened = self._there[number]
        return opened.gpu or f"cpu {number}", opened.host

    def _do(self, left: list[Rows[Way]], guesses: Sequence[float], look: Look | None) -> None:
        assert self._fleet
        self._working = perf_counter()
        if self.every:
            without = {id(group) for group in resume.left(self.results, self._groups)}
            self._queue = Everywhere([group for group in self._groups if id(group) not in without])
            for number in self._there:
                self._queue.join(number, self._missing(number, self.results, self._groups))
        else:
            self._queue = Queue(left, guesses)
        left.clear()
        with self.quiet():
            while self._queue and not self._wrong:
                self._hand_out()
                self._refuse_to_wait()
                for number, report in self._fleet.reports(SLICE):
                    self._hear(number, report)
                self.tell(Step(self._at_work(), "measuring"))
        if not self._queue and not self.results.complete:  # the last of the queue had no rows
            self.results.complete = True
            self.keep()

    def _hand_out(self) -> None:
        assert self._fleet
        for number in self._there.keys() - self._queue.doing.keys():
            if group := self._queue.next(number, self._there.keys() - {number}):
                self._fleet.give(number, msgspec.json.encode(group.sent()))

    def _refuse_to_wait(self) -> None:
        """Raise Unavailable where no GPU works, and none has opened in place of those that are lost."""
        if self._queue.doing:
            self._working = perf_counter()
        elif not self._opening or perf_counter() - self._working > self._patience:
            for number in list(self._opening):
                name = self._names.get(number)
                self._leave_out(
                    number, f"{name} was lost, and no actor starts there again" if name else "one never opened"
                )
            if self._queue:
                raise Unavailable(self._none_left())

    def _hear(self, number: int, report: Report) -> None:
        if number in self._opening:
            self._hear_of_opening(number, report)
        elif isinstance(report, Answer):
            for text in report.warnings:
                warnings.warn(text, stacklevel=2)
            self._spent[number] = report.spent
            group = self._queue.done(number)
            self._finish(group, report.cases, number, report.seconds)
        else:
            assert isinstance(report, Gone)
            self._lose(number, report.reason)

    def _lose(self, number: int, reason: str) -> None:
        """An actor is lost: its group goes elsewhere or is given up, and a new actor takes its place."""
        for name, seconds in self._spent.pop(number, {}).items():
            self._before_death[name] = self._before_death.get(name, 0.0) + seconds
        if self.every and (group := self._queue.doing.get(number)):
            self._lost.add((*self._where(number), *_key(group)))
        given_up = self._queue.lost(number, reason)
        if given_up:
            tries = self._queue.tries(given_up)
            places = ", ".join(dict.fromkeys(self._names[at] for at, _ in tries))
            reason = f"it ended {len(tries)} actors ({places}) and is not tried again; the last: {reason}"
            cases = [failed(given_up, label, reason) for label in self.labels(given_up)]
            self._finish(given_up, cases, number, 0.0)
        del self._there[number]
        if self._queue.struck_out(number):
            self._leave_out(number, reason)
            warnings.warn(f"{self._names[number]} is left out: it loses every group; the last: {reason}", stacklevel=2)
        else:
            self._hire(number)

    def _finish(self, group: Rows[Way], cases: list[Case], number: int, seconds: float) -> None:
        gpu, host = self._where(number)
        condition = next((case.condition for case in cases if case.status == record.CEILING), {})
        lost = [f"{self._names[at]}: {why}" for at, why in self._queue.tries(group)]
        self.results.places.append(Place(
            *_key(group), gpu, self._there[number].ready.machine.name, host, dict(condition), seconds, lost,
            self._medians(cases) if self.every else {},
        ))  # fmt: skip
        if any(case.group == _key(group) for case in self.results.cases):
            self.results.complete = not self._queue  # another GPU was first
            self.keep()
        else:
            self._take(group, cases, complete=not self._queue)
            self._wrong |= self.ends(cases)  # another group may be done before the run ends
            self._queue.keep(self.needed(cases, self._queue.waiting))

    def _medians(self, cases: list[Case]) -> dict[str, float]:
        """Median seconds of the main kind by variant, with the copy."""
        kind = msgspec.structs.replace(self.results, cases=cases).main_kind
        return {case.label: found for case in cases if kind and (found := case.median(kind))}

    def _at_work(self) -> str:
        doing = self._queue.doing
        names = ", ".join(f"{number}: {doing[number]}" for number in sorted(doing))
        return f"{len(self._there)} GPUs ({names})"

    # ---- the run -----------------------------------------------------------------------------------------------

    def spent(self) -> dict[str, float]:
        """Seconds by phase of all actors, and the mean of the load that they saw."""
        every = [*self._spent.values(), self._before_death]
        found: dict[str, float] = {}
        for one in every:
            for name, seconds in one.items():
                found[name] = found.get(name, 0.0) + seconds
        total = found.get("total", 0.0)
        elapsed = perf_counter() - self._start
        shares = {name: found[name] * elapsed / total for name in (load.OTHERS, load.CORES) if total and name in found}
        return {**found, **shares, "total": elapsed}

    def keep(self) -> None:
        """Write the results as `Session.keep` does, with the groups in the run's order."""
        self.results.cases.sort(key=lambda case: self._rank.get(case.group, -1))
        self.results.places.sort(key=lambda place: self._rank.get((place.kernel, place.size, place.dtype), -1))
        super().keep()


def _key(group: Rows[Way]) -> tuple[str, str, str]:
    """What a file knows a group by."""
    return group.name, group.size, group.dtype.name


def _not_opened(count: int, of: int, seconds: float) -> str:
    has, them = ("has", "it") if count == 1 else ("have", "them")
    return (
        f"{count} of {of} GPUs {has} not opened within {seconds:.0f} s: another job of Ray has {them}, or no processor "
        "is free (`ray status` says); the run uses those that have, and others once they open"
    )
