"""Runs groups in one worker process at a time. Where a worker dies, the variant at fault loses its row.

A run of several processes has a supervisor for each (`cudalab.engine.team`).

The rule for one group of cases:

1. If the worker dies at a variant, that variant gets a row that says what happened, and the whole group is run
   again without it. (Times are comparable only if they were taken in the same rounds of the same process.)
2. A second *crash* in one group makes the first verdict doubtful: a variant that overwrites the process's memory may
   make others crash. Every variant is then checked alone, in a process of its own, and those that survive are run
   together. If that dies too, they keep the verdicts that they got alone, and have no times.
3. A death before any variant's turn is tried again once, unless it was a hang. Then the whole group has error rows.
4. A variant that hung in HANGS groups is not tried in later ones; nor is any, where that came before their turns.
5. If the worker dies while a variant is measured under load (energy, sustained), the group is run again without loads
   of that variant: its row keeps the other times, and a note says what happened. The run's other processes do not try
   these loads in that group, and none does in later groups once the variant has hung under load in HANGS of them.

So a group of V variants starts a worker at most 3 V + 4 times, and every run ends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from math import inf
from time import perf_counter, sleep
from types import TracebackType
from typing import TypeAlias, TypeVar

import msgspec

from cudalab.base import errors
from cudalab.base.errors import Unavailable
from cudalab.engine import messages, process
from cudalab.engine.deaths import Death, Deaths
from cudalab.engine.job import RELEASE
from cudalab.engine.messages import (
    TIMING,
    WORKER,
    Done,
    Failed,
    Glimpse,
    Go,
    Lost,
    Prepared,
    Ready,
    Report,
    Setup,
    Step,
    Task,
)
from cudalab.engine.process import Ended, Process, started
from cudalab.engine.rows import failed
from cudalab.engine.selection import Rows, Selection, Way
from cudalab.results.record import COPY, LOADED, Case, Parity

TIMEOUT = 120.0  # seconds: longer than any compiler takes for one kernel
OPENING = 120.0  # seconds that opening the device may take, if `timeout` is shorter
TRIES = 3  # to start a worker in another's place: a GPU may need a moment after an error
DOUBT = 2  # crashes in one group

LOST = "the process cannot use the GPU after this"
NOT_TIMED = "not timed: the worker process dies when the group's variants run together; each was checked alone"

T = TypeVar("T")
Doing: TypeAlias = Generator[None, None, T]  # steps towards a T
Quiet: TypeAlias = Callable[[], AbstractContextManager[object]]


class _Ended(Unavailable):
    """A worker ended or hung before it had opened the device."""


class Supervisor:
    """Runs groups of cases in a worker process. A context manager: at its end no worker is left.

    `begin` and `opened` start the first worker without waiting for it; entering the context does both.
    """

    def __init__(
        self, setup: Setup, selection: Selection, timeout: float, progress: Callable[[Step], None],
        quiet: Quiet = nullcontext,
    ) -> None:  # fmt: skip
        self.setup, self.selection, self.timeout, self.progress = setup, selection, timeout, progress
        self._quiet, self._timing = quiet, ExitStack()  # the stack has entered `quiet` while the worker takes times
        self.wall: dict[str, float] = {}  # seconds by phase, of all workers
        self.made: messages.Made | None = None  # contents of the group at work that were made ahead
        self.known: dict[str, Parity] = {}  # verdicts of the group at work, see `messages.Done`
        self.deaths = Deaths()
        self._group: Rows[Way] | None = None  # the one at work
        self._process: Process | None = None
        self._begun = 0.0  # when the worker was started that has not opened its device yet
        self._ahead = False  # whether it loads what a spec needs before it is asked
        self.waiting = False  # whether the worker has prepared its task, and waits for `go`
        self.bad: tuple[str, ...] = ()  # variants of that task that will have no times
        self._struck: tuple[str, ...] = ()  # of those, the ones that have ended or hung a worker
        self._left_out: tuple[str, ...] = ()  # labels that the present call of `cases` leaves out

    def __enter__(self) -> Supervisor:
        """Start the first worker. Raises what opening the device raised there."""
        self.begin()
        self.opened()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        if self._process:
            self._process.kill() if kind or self._begun else self._process.end()

    def dismiss(self) -> None:
        """Let the worker end by itself; leaving the context waits for that."""
        if self._process and not self._begun:
            self._process.dismiss()

    def go(self, known: Mapping[str, Parity] | None = None, omit: Collection[str] = ()) -> None:
        """Let the worker time what it has prepared, but the variants in `omit`; `known`: see `doing`."""
        assert self._process
        self.waiting = False
        self.known |= known or {}
        self._timing.enter_context(self._quiet())
        self._process.go(Go(dict(known or {}), tuple(omit), self.deaths.unloaded(self._group) if self._group else {}))

    def labels(self, group: Rows[Way]) -> list[str]:
        """Of the selected variants, in the order of the rows."""
        return [v.label for v in self.selection.variants(group, self.ready.machine.device)]

    def glimpses(self) -> dict[str, Glimpse]:
        """Preliminary numbers of the variants of the running group."""
        return self._process.glimpses() if self._process else {}

    def cases(
        self,
        group: Rows[Way],
        timed: bool = True,
        omit: Collection[str] = (),
        known: Mapping[str, Parity] | None = None,
    ) -> list[Case]:
        """Rows of every selected variant of a group, even if some crash; without the labels in `omit`. See `doing`."""
        return self._finished(self.doing(group, timed, omit, known))

    def doing(
        self,
        group: Rows[Way],
        timed: bool = True,
        omit: Collection[str] = (),
        known: Mapping[str, Parity] | None = None,
    ) -> Doing[list[Case]]:
        """The steps of `cases`, which the generator returns; it yields where it would wait for the worker.

        `timed` False: check only. `known` are verdicts of other processes on this group. The worker is
        `waiting`, once or more often, until `go` lets it take times.
        """
        self._group, self._left_out, self.known = group, tuple(omit), dict(known or {})
        struck = self.deaths.skipped(group, self._wanted(group))
        if death := struck.pop("", None):
            return self._merged(group, [], dict.fromkeys(self._wanted(group), death))
        again = True
        while True:
            end = yield from self._attempt(group, struck, timed)
            if not isinstance(end, Death):
                return self._merged(group, end, struck)
            if end.loaded and end.label not in self.deaths.unloaded(group):  # it keeps its other times
                self.deaths.note_loaded(group, end)
            elif end.label and end.label not in struck:
                struck[end.label] = self.deaths.note(group, end)
                if sum(death.crashed for death in struck.values()) >= DOUBT:
                    return (yield from self._apart(group, struck, timed))
            elif end.after:
                return (yield from self._apart(group, struck, timed))
            elif again and not end.hung:
                again = False
            else:
                return self._merged(group, [], dict.fromkeys(self._wanted(group), self.deaths.note(group, end)))

    def _wanted(self, group: Rows[Way]) -> list[str]:
        """The labels that the present call of `cases` is about."""
        return [label for label in self.labels(group) if label not in self._left_out]

    def ask(self, task: Task, step: Step, kind: type[T]) -> T | Death:
        """The result of a task's handler, of type `kind`, or how the worker died. The worker is at `step` until it says
        more. Raises the CudalabError that the handler raised.
        """
        answer = self._finished(self._asked(task, step, kind))
        if isinstance(answer, Failed):
            raise getattr(errors, answer.kind, errors.CudalabError)(answer.message)
        return answer

    def _apart(self, group: Rows[Way], struck: dict[str, Death], timed: bool) -> Doing[list[Case]]:
        """Check every variant in a process of its own, except those that surely are at fault; time the survivors."""
        guilty = {label: death for label, death in struck.items() if not death.crashed}
        alone: list[Case] = []
        for label in self._wanted(group):
            if label not in guilty:
                self._kill()
                others = [other for other in self._wanted(group) if other != label]
                end = yield from self._attempt(group, others, timed=False)
                if isinstance(end, Death):
                    guilty[label] = self.deaths.note(group, end)
                alone += [] if isinstance(end, Death) else end
        self._kill()
        together: list[Case] | Death = alone
        if self.setup.modes and timed:
            together = yield from self._attempt(group, guilty)
        if isinstance(together, Death):
            together = alone
            for case in alone:
                case.notes.append(NOT_TIMED)
        return self._merged(group, together, guilty)

    def _merged(self, group: Rows[Way], cases: list[Case], deaths: dict[str, Death]) -> list[Case]:
        """All rows in their order. A dead variant gets the byte count of the others."""
        rows = {case.label: case for case in cases}
        nbytes = max((case.nbytes for case in cases), default=0)
        for label, death in deaths.items():
            rows[label] = failed(group, label, death.reason)
            rows[label].nbytes = nbytes
        order = [*self.labels(group), COPY]
        return [rows[label] for label in order if label in rows]

    def _attempt(self, group: Rows[Way], omit: Collection[str], timed: bool = True) -> Doing[list[Case] | Death]:
        """Let a worker do the group without the variants in `omit`."""
        task = group.task((*self._left_out, *omit), timed)
        task.known, task.unloaded, self._struck = self.known, self.deaths.unloaded(group), tuple(omit)
        task.made = self.made if timed else None
        answer = yield from self._asked(task, Step(str(group), "start"), list[Case])
        if isinstance(answer, Failed):
            return [failed(group, label, answer.message) for label in self._wanted(group) if label not in omit]
        return answer

    def _asked(self, task: Task, step: Step, kind: type[T]) -> Doing[T | Failed | Death]:
        """Let a worker do a task. If the worker dies, return the death of the variant that was at work."""
        worker = self._process or self._restart()
        worker.send(task, step)
        report: Report | None = None
        with self._timing:
            while report is None:
                yield
                try:
                    report = worker.look(inf if self.waiting else self.timeout, self.progress)
                except Ended as ended:
                    self._process, self.waiting = None, False
                    return self._death(ended)
                if isinstance(report, Prepared):
                    self._timing.close()  # of what it prepared before
                    self.known |= report.known
                    self.waiting, self.bad, report = True, (*self._struck, *report.bad), None
        if isinstance(report, Lost):
            self._kill()
            reason = f"{report.reason} ({report.step.phase}); {LOST}: a new worker continued"
            return Death(report.step.label, reason, loaded=_loaded(report.step))
        if isinstance(report, Failed):
            return report
        assert isinstance(report, Done)
        self._add(report.wall)
        self.known |= report.known
        try:
            return msgspec.json.decode(report.result, type=kind)
        except msgspec.DecodeError as error:
            return Failed("CudalabError", f"the worker's answer cannot be read: {error}")

    def _death(self, ended: Ended) -> Death:
        step = ended.step
        if ended.hung:
            doing = f"{step.label} ({step.phase})" if step.label else step.phase
            cause = "does the compiler hang, typed in a shell?" if step.phase == "compile" else "does a loop never end?"
            reason = f"{doing} {ended.how} and was stopped; {cause} else give a longer --timeout"
        else:
            doing = f"ran {step.label} ({step.phase})" if step.label else f"was at: {step.phase}"
            reason = f"{ended.how} while it {doing}" + (f"; its last output: {ended.said}" if ended.said else "")
        return Death(step.label, reason, not ended.hung, ended.hung, step.phase == RELEASE, _loaded(step))

    def _restart(self) -> Process:
        """Start a worker that replaces one that has died."""
        self.setup.calibrate = False
        for attempt in range(TRIES):
            sleep(attempt)
            try:
                self.begin()
                self.opened()
            except errors.CudalabError as error:
                why = error
            else:
                assert self._process
                return self._process
        raise Unavailable(f"after a failure the device cannot be opened again: {why}") from None

    def _finished(self, doing: Doing[T]) -> T:
        """Do all steps; the worker need not wait for others."""
        while True:
            try:
                next(doing)
            except StopIteration as end:
                found: T = end.value
                return found
            if self.waiting:
                self.go()
            self.wait([self])

    @staticmethod
    def wait(supervisors: Iterable[Supervisor]) -> None:
        """Wait until a worker of these may have something to report, or some time has gone by."""
        process.wait(s._process for s in supervisors if s._process)

    def begin(self) -> None:
        """Start a worker, and do not wait until it has opened the device."""
        self._begun = perf_counter()
        worker = self._process = started()
        self._ahead = worker.ahead
        with self._ending_if_it_fails():
            worker.send(self.setup, Step(WORKER, "start"))

    def opened(self, wait: bool = True) -> bool:
        """Whether the worker has opened the device; `wait` until it has. Raises what opening the device raised there.

        Where the worker is waited for, the time counts as that of starting workers. One that ends or hangs is started
        once more without what it loads for later: rows of a broken library say so.
        """
        if not self._begun:
            return True
        try:
            return self._has_opened(wait)
        except errors.Unavailable as error:
            ahead = self._ahead and isinstance(error, _Ended)
            if not ahead and not (self.setup.process and self.setup.backends):
                raise
        self.setup = msgspec.structs.replace(self.setup, backends=())
        self.begin()
        return self._has_opened(wait)

    def _has_opened(self, wait: bool) -> bool:
        assert self._process
        start, limit = perf_counter(), max(self.timeout, OPENING)
        with self._ending_if_it_fails():
            try:
                report = self._process.receive(limit, self.progress) if wait else self._process.poll()
            except Ended as ended:
                raise _Ended(f"the device cannot be used: {self._death(ended).reason}") from None
            if report is None:
                if start - self._begun > limit:
                    raise Unavailable(f"the device cannot be used: it did not open within {limit:g} s")
                return False
            if isinstance(report, Failed):
                raise getattr(errors, report.kind, errors.CudalabError)(report.message)
            assert isinstance(report, Ready)
        self._begun, self.ready = 0.0, report
        waited = perf_counter() - start
        opening = {name: min(seconds, waited) for name, seconds in report.wall.items()}
        self._add(opening)
        self._add({"starting workers": max(waited - sum(opening.values()), 0.0)})
        return True

    @contextmanager
    def _ending_if_it_fails(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._kill()
            raise

    def _kill(self) -> None:
        if self._process:
            self._process.kill()
        self._process, self._begun, self.waiting = None, 0.0, False

    def _add(self, wall: dict[str, float]) -> None:
        for name, seconds in wall.items():
            self.wall[name] = self.wall.get(name, 0.0) + seconds


def _loaded(step: Step) -> bool:
    """Whether a variant is measured under load at this step."""
    return step.phase.removeprefix(TIMING) in LOADED
