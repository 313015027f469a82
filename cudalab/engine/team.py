"""The worker processes of a run. Each does every group that is timed, one after the other; their rows become one.

A time may depend on its process: where the arrays lie in memory, which code a compiler chose, the step of the clock.
So the rounds of a row come from several fresh processes, and its interval knows what differs between them.

- The first process prepares a group: it compiles and checks. Then the others do so, all at the same time, as far as
  memory and processors allow. Nothing is timed meanwhile. Then they take times in turn: no two of them work at once.
- The later processes start when the first has its first timed group. While it prepares, they load their libraries, and
  torch.compile compiles one small function on a GPU: its first compilation takes seconds in any process. Those that may
  not be needed do so too where there are many processors; elsewhere they start when they are.
- Where no number was asked for, further processes time the rows that are not known well enough
  (`cudalab.engine.enough`).
- Every process has the same inputs, which `cudalab.engine.ahead` makes for all where they are large, and orders of its
  own in which the variants take turns. It gets its share of the budget and of the least number of rounds.
- A variant that cannot be timed in one process is not tried in the later ones. A variant that fails in a later process
  loses its row; in a further process, which only helps, that costs the times of this process alone. The later processes
  do not compare bits that an earlier one compared with the reference.
- What is not timed is done by the first process alone.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from time import perf_counter
from types import TracebackType
from typing import TypeVar

import msgspec

from cudalab.base.errors import CudalabError, Unavailable
from cudalab.engine import enough
from cudalab.engine.ahead import WAITING, Ahead
from cudalab.engine.deaths import Death
from cudalab.engine.fit import CONTEXT
from cudalab.engine.groups import Group
from cudalab.engine.merge import merged
from cudalab.engine.messages import Glimpse, Made, Ready, Setup, Step, Task
from cudalab.engine.rows import failed
from cudalab.engine.selection import Rows, Selection, Way
from cudalab.engine.supervisor import Doing, Quiet, Supervisor
from cudalab.results import record
from cudalab.results.record import Case, Parity

T = TypeVar("T")
TIMED = (record.OK, record.CEILING)  # the status of rows that may have times
COPIES = 12  # arrays like a group's first input that it takes for a group
CORES = 2  # processors for each process that may be needed: where there are so many, all start beside the first
SHARE, OWN = 0.9, 0.25  # of the GPU's memory, for all processes, and for what they have of their own


class Team:
    """The processes of a run, each with its supervisor. A context manager: at its end no worker is left."""

    def __init__(
        self, setup: Setup, selection: Selection, timeout: float, progress: Callable[[Step], None],
        quiet: Quiet = nullcontext,
    ) -> None:  # fmt: skip
        self.setup, self.selection, self.timeout, self.progress = setup, selection, timeout, progress
        self.quiet = quiet  # what is entered while times are taken
        self.wall: dict[str, float] = {}  # seconds by phase, of all processes
        self.turn = 0  # the number of the process at work, from 0
        self.later: Sequence[Rows[Way]] = ()  # the groups after the one at work, whose inputs are made ahead
        self._ahead = Ahead(setup.seed, timeout)
        self._made: Made | None = None  # of the group at work
        self._stack = ExitStack()
        self._all: list[Supervisor] = []
        self._opening: list[Supervisor] = []  # those whose first worker has not opened the device yet
        self._doing: dict[int, Doing[list[Case]]] = {}  # what processes do of the group at work, by their numbers
        self._rows: dict[int, list[Case]] = {}  # of those that have done it
        self._before: list[Case] = []  # rows of the groups that were timed
        self._seen: dict[str, Glimpse] = {}  # numbers of the group at work, from the processes that have done it

    def __enter__(self) -> Team:
        """Start the first process. Raises what opening the device raised there."""
        first = self._supervisor()
        self._stack.enter_context(first)
        self._stack.enter_context(self._ahead)
        self.ready: Ready = first.ready
        self.count, most = (of(self.ready.machine.device) for of in (self.setup.count, self.setup.most))
        self.most = max(self.count, min(most, self._room(CONTEXT, OWN)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for supervisor in self._all if kind is None else ():
            supervisor.dismiss()  # all of them end at the same time
        self._stack.__exit__(kind, error, trace)

    def labels(self, group: Rows[Way]) -> list[str]:
        """Of the selected variants, in the order of the rows."""
        return self._all[0].labels(group)

    def glimpses(self) -> dict[str, Glimpse]:
        """Preliminary numbers of the variants of the running group."""
        now = self._all[self.turn].glimpses() if self._all else {}
        # A later process begins without a time: that of an earlier one stays until then.
        kept = {label: old for label, old in self._seen.items() if label not in now or _says_more(old, now[label])}
        return {**now, **kept}

    def cases(self, group: Rows[Way], timed: bool = True, omit: Sequence[str] = ()) -> list[Case]:
        """Rows of every selected variant of a group, even if some crash.

        `timed` False: check only, without the labels in `omit`.
        """
        if timed and self.setup.modes:
            self._look_ahead(group)
        if self.count == 1 or not timed:
            return self._all[0].cases(group, timed, omit)
        most = self.most if isinstance(group, Group) else self.count
        found: list[list[Case]] = []
        known: dict[str, Parity] = {}
        left_out: set[str] = set()  # variants that cannot be timed, or need no more times
        try:
            while len(found) < most and not _all_in(left_out, found):
                end = most if len(found) >= self.count else self.count
                wave = range(len(found), min(len(found) + self._at_once(group), end))
                self._prepare(wave, group, left_out, known)
                most = min(most, self.most)
                for number in (number for number in wave if number in self._doing or number in self._rows):
                    if _all_in(left_out, found):  # what it has prepared is not needed
                        self._timed(number, known, self.labels(group))
                        continue
                    found.append(cases := self._timed(number, known, left_out))
                    if number < self.most:  # else it only helped, and could not go on
                        left_out |= {c.label for c in cases if c.status not in TIMED or not (number or c.times)}
                    self._seen = self.glimpses()
                    if len(found) >= self.count:
                        rows = merged(found, len(found), self.count)
                        left_out |= enough.settled(rows, self.count, most, self._before)
            rows = merged(found, max(len(found), self.count), self.count)
            self._before += rows
            return rows
        finally:
            self.turn, self._seen = 0, {}
            self._doing.clear()
            self._rows.clear()

    def _look_ahead(self, group: Rows[Way]) -> None:
        """Take what was made of this group, and let a later one be made while this one is prepared."""
        start = perf_counter()
        self._made = self._ahead.take(group, lambda: self.progress(Step(str(group), WAITING)))
        self.wall[WAITING] = self.wall.get(WAITING, 0.0) + perf_counter() - start
        self._ahead.begin(self.later)
        for supervisor in self._all:
            supervisor.made = self._made

    @contextmanager
    def still(self) -> Iterator[None]:
        """What is entered while times are taken: nothing works beside the run."""
        with self._ahead.paused(), self.quiet():
            yield

    def _prepare(self, wave: range, group: Rows[Way], omit: set[str], known: dict[str, Parity]) -> None:
        """Let these processes prepare a group. The first one of all goes before the others, and tells what is right."""
        many = isinstance(group, Group) and len(os.sched_getaffinity(0)) >= CORES * self.most
        self._begin(max(wave[-1] + 1, self.most if many else self.count))
        omit = set(omit)
        for numbers in ([0], wave[1:]) if wave[0] == 0 else (wave,):
            for number in numbers:
                self._wait_for(self._all[number])
                if number >= self.most:  # it has no room on this GPU
                    break
                self._doing[number] = self._done(number, group, tuple(omit), known)
            self._until(numbers, lambda number: self._all[number].waiting)
            if numbers == [0]:
                known |= self._all[0].known
                omit |= set(self._all[0].bad)
                if omit.issuperset(self.labels(group)):
                    break
        for later in self._opening[:]:
            self._wait_for(later)  # none starts while another takes times

    def _done(
        self, number: int, group: Rows[Way], omit: tuple[str, ...], known: dict[str, Parity]
    ) -> Doing[list[Case]]:
        """The steps of a process. One that only helps and cannot go on is not asked again; its rows say why."""
        try:
            return (yield from self._all[number].doing(group, True, omit, known))
        except CudalabError as error:
            if number < self.count:
                raise
            self.most = min(self.most, number)
            return [failed(group, label, str(error)) for label in self.labels(group) if label not in omit]

    def _timed(self, number: int, known: dict[str, Parity], omit: Collection[str]) -> list[Case]:
        """The rows of a process whose turn it is."""
        supervisor = self._all[number]
        while number in self._doing:
            if supervisor.waiting:
                supervisor.go(known, omit)
            self._until([number], lambda number: supervisor.waiting)
        known |= supervisor.known
        return self._rows.pop(number, [])

    def _until(self, numbers: Sequence[int], there: Callable[[int], bool]) -> None:
        """Let these processes work until each is `there`, or done."""
        while left := [number for number in numbers if number in self._doing and not there(number)]:
            self.turn = left[0]
            for number in left:
                try:
                    next(self._doing[number])
                except StopIteration as end:
                    del self._doing[number]
                    self._rows[number] = end.value
            if left := [number for number in left if number in self._doing and not there(number)]:
                Supervisor.wait(self._all[number] for number in left)

    def _at_once(self, group: Rows[Way]) -> int:
        """How many processes may prepare a group at the same time.

        Each has its own context, the group's arrays and a result of each variant, and one of them what it is timed on.
        """
        cores = len(os.sched_getaffinity(0))
        if not isinstance(group, Group):
            return 1
        if self.ready.machine.device != "cuda":
            return cores
        from cudalab.timing.gpu import results_bytes  # which a CPU needs not load

        labels, array = self.labels(group), math.prod(group.shape) * group.dtype.itemsize
        each = (COPIES + len(labels)) * array
        libraries = sum(label.partition(":")[0] not in record.ENTRIES for label in labels)
        timed = results_bytes(array, libraries, self.setup.modes)
        waiting = self._room(each, SHARE, self.most * CONTEXT + each + timed)
        return max(1, min(cores, 1 + waiting))

    def _room(self, each: int, share: float, taken: int = 0) -> int:
        """How many processes with so many bytes each have room in a share of the GPU's memory beside what is taken."""
        machine = self.ready.machine
        total = machine.details.get("memory_bytes", 0)
        if machine.device != "cuda" or not isinstance(total, int) or not each:
            return sys.maxsize
        return int((share * total - taken) / each)

    def ask(self, task: Task, step: Step, kind: type[T]) -> T | Death:
        """Return the result of a task from the first process; see `Supervisor.ask`."""
        return self._all[0].ask(task, step, kind)

    def _supervisor(self) -> Supervisor:
        setup = msgspec.structs.replace(
            self.setup, process=len(self._all), calibrate=not self._all and self.setup.calibrate
        )
        found = Supervisor(setup, self.selection, self.timeout, partial(self._tell, len(self._all)), self.still)
        found.wall, found.made = self.wall, self._made
        if self._all:
            found.deaths = self._all[0].deaths
        self._all.append(found)
        return found

    def _begin(self, count: int) -> None:
        """Start the processes up to this number, once."""
        while len(self._all) < count:
            later = self._supervisor()
            self._stack.push(later)  # before it starts, so that it is ended whatever happens
            later.begin()
            self._opening.append(later)

    def _tell(self, number: int, step: Step) -> None:
        """Look after the processes that start meanwhile, and tell what the one that is shown does."""
        for supervisor in list(self._opening):
            if supervisor.setup.process != number and self._opened(supervisor, wait=False):
                self._opening.remove(supervisor)
        if number == self.turn:
            self.progress(step)

    def _wait_for(self, supervisor: Supervisor) -> None:
        if supervisor in self._opening:
            self._opening.remove(supervisor)
            self._opened(supervisor)

    def _opened(self, supervisor: Supervisor, wait: bool = True) -> bool:
        """Whether a later process has opened the device. Raises Unavailable where it cannot, but is needed."""
        number = self._all.index(supervisor)
        where = f"process {number + 1} of {self.count}"
        try:
            opened = supervisor.opened(wait)
        except CudalabError as error:
            if number >= self.count:
                self.most = min(self.most, number)
                return True
            raise Unavailable(f"{where} did not start: {error}; --processes 1 needs only one") from None
        if opened:
            here, there = self.ready.machine, supervisor.ready.machine
            if (there.device, there.name) != (here.device, here.name):
                raise Unavailable(f"{where} runs on {there.name} ({there.device}), the first on {here.name}")
        return opened


def _all_in(labels: set[str], found: Sequence[Sequence[Case]]) -> bool:
    """Whether all rows of the first process are among these."""
    return bool(found) and labels.issuperset(case.label for case in found[0])


def _says_more(old: Glimpse, new: Glimpse) -> bool:
    """Whether the numbers of an earlier process say more than those of the present one."""
    return new.status == record.OK and not new.seconds and bool(old.seconds)
