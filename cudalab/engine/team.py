"""The worker processes of a run. Each does every group that is timed, one after the other; their rows become one.

A time may depend on its process: where the arrays lie in memory, which code a compiler chose, the step of the clock.
So the rounds of a row come from several fresh processes, and its interval knows what differs between them.

- A group is done by the first process, then by the second, and so on; then the next group begins. No two processes
  work at once.
- The later processes start when the first has its first timed group, and load their libraries while it compiles and
  checks. It waits before it times anything until they have started: no process starts while another takes times.
- Every process has the same inputs, and orders of its own in which the variants take turns. It gets its share of the
  budget and of the least number of rounds.
- A variant that cannot be timed in one process is not tried in the later ones. A variant that fails in a later process
  loses its row. The later processes do not compare bits that an earlier one compared with the reference.
- What is not timed is done by the first process alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TypeVar

import msgspec

from cudalab.base.errors import CudalabError, Unavailable
from cudalab.engine.merge import merged
from cudalab.engine.messages import Glimpse, Ready, Setup, Step, Task
from cudalab.engine.selection import Rows, Selection, Way
from cudalab.engine.supervisor import Death, Supervisor
from cudalab.results import record
from cudalab.results.record import Case, Parity

T = TypeVar("T")
TIMED = (record.OK, record.CEILING)  # the status of rows that may have times


class Team:
    """The processes of a run, each with its supervisor. A context manager: at its end no worker is left."""

    def __init__(self, setup: Setup, selection: Selection, timeout: float, progress: Callable[[Step], None]) -> None:
        self.setup, self.selection, self.timeout, self.progress = setup, selection, timeout, progress
        self.wall: dict[str, float] = {}  # seconds by phase, of all processes
        self.turn = 0  # the number of the process at work, from 0
        self._stack = ExitStack()
        self._all: list[Supervisor] = []
        self._opening: list[Supervisor] = []  # those whose first worker has not opened the device yet
        self._seen: dict[str, Glimpse] = {}  # numbers of the group at work, from the processes that have done it

    def __enter__(self) -> Team:
        """Start the first process. Raises what opening the device raised there."""
        first = self._supervisor()
        self._stack.enter_context(first)
        self.ready: Ready = first.ready
        self.count = self.setup.count(self.ready.machine.device)
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
        if self.count == 1 or not timed:
            return self._all[0].cases(group, timed, omit)
        self._begin()
        found: list[list[Case]] = []
        known: dict[str, Parity] = {}
        untimed: set[str] = set()
        try:
            for turn, supervisor in enumerate(self._all):
                self.turn = turn
                self._wait_for(supervisor)
                found.append(supervisor.cases(group, timed, untimed, known))
                self._seen = self.glimpses()
                known |= supervisor.known
                untimed |= {case.label for case in found[-1] if case.status not in TIMED or not (turn or case.times)}
                if untimed.issuperset(case.label for case in found[0]):
                    break
        finally:
            self.turn, self._seen = 0, {}
        return merged(found, self.count)

    def ask(self, task: Task, step: Step, kind: type[T]) -> T | Death:
        """The result of a task from the first process; see `Supervisor.ask`."""
        return self._all[0].ask(task, step, kind)

    def _supervisor(self) -> Supervisor:
        setup = msgspec.structs.replace(
            self.setup, process=len(self._all), calibrate=not self._all and self.setup.calibrate
        )
        found = Supervisor(setup, self.selection, self.timeout, self._tell)
        found.wall = self.wall
        if self._all:
            found.hung = self._all[0].hung
        self._all.append(found)
        return found

    def _begin(self) -> None:
        """Start the later processes, once; the first one waits for them before it times anything."""
        while len(self._all) < self.count:
            later = self._supervisor()
            self._stack.push(later)  # before it starts, so that it is ended whatever happens
            later.begin()
            self._opening.append(later)
        self._all[0].hold(bool(self._opening))

    def _tell(self, step: Step) -> None:
        """Look after the processes that start meanwhile, and tell what the one at work does."""
        for supervisor in list(self._opening):
            if self._opened(supervisor, wait=False):
                self._opening.remove(supervisor)
                self._all[0].hold(bool(self._opening))
        self.progress(step)

    def _wait_for(self, supervisor: Supervisor) -> None:
        if supervisor in self._opening:
            self._opening.remove(supervisor)
            self._opened(supervisor)

    def _opened(self, supervisor: Supervisor, wait: bool = True) -> bool:
        """Whether a later process has opened the device. Raises Unavailable where it cannot."""
        where = f"process {self._all.index(supervisor) + 1} of {self.count}"
        try:
            opened = supervisor.opened(wait)
        except CudalabError as error:
            raise Unavailable(f"{where} did not start: {error}; --processes 1 needs only one") from None
        if opened:
            here, there = self.ready.machine, supervisor.ready.machine
            if (there.device, there.name) != (here.device, here.name):
                raise Unavailable(f"{where} runs on {there.name} ({there.device}), the first on {here.name}")
        return opened


def _says_more(old: Glimpse, new: Glimpse) -> bool:
    """Whether the numbers of an earlier process say more than those of the present one."""
    return new.status == record.OK and not new.seconds and bool(old.seconds)
