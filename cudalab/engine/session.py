"""One session: worker processes with a device, and the run that they fill. Everything that measures goes through here.

    with Session("check", options, setup, selection) as session:
        rows = session.cases(group)

`engine/runs.py` gives it the groups of kernels, a study its workloads; the tools give it groups one at a time. No
library that can crash is loaded in this process: see `cudalab.engine.team` for the processes of a run,
`cudalab.engine.supervisor` for what happens if one dies, and `cudalab.engine.job` for what it does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from math import inf
from time import perf_counter
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from cudalab.base import genuine
from cudalab.base.claim import claimed
from cudalab.base.errors import InputError, Unavailable, need_seconds
from cudalab.base.load import Watch
from cudalab.device.machine import commit
from cudalab.engine import early, fit, resume, run_file
from cudalab.engine.deaths import Death
from cudalab.engine.early import OutOfTime, Stopped
from cudalab.engine.groups import Group
from cudalab.engine.hard import HardInputs
from cudalab.engine.messages import Ready, Setup, Step, Task
from cudalab.engine.options import File
from cudalab.engine.progress import FINISHED, Pace, Progress, Report, guess, ignore, sampled
from cudalab.engine.rows import elsewhere, not_compiled, refused
from cudalab.engine.selection import Rows, Selection, Way
from cudalab.engine.supervisor import TIMEOUT, Quiet
from cudalab.engine.team import Team
from cudalab.results import limit, record
from cudalab.results.record import Case, Machine, Results

Words = str | Sequence[str]
Names = str | os.PathLike[str]
Told = Callable[[Machine], object]
T = TypeVar("T")


@dataclass(frozen=True)
class Look:
    """A second look at the rows of each group of kernels, before they are kept. `phase` is what the progress shows."""

    phase: str
    add: Callable[[list[Case], Group], object]


Looks = Callable[[Ready], AbstractContextManager[Look]]


@dataclass
class Session:
    """The worker processes and the run that they fill. A context manager: at its end no worker is left.

    `kind` of the run is bench, check or study; `output` is the file that it is written to after each group; a worker
    that gives no sign of life for `timeout` seconds is stopped; `progress` is told how far the run is.
    """

    kind: str
    options: dict[str, Any]
    setup: Setup
    selection: Selection
    timeout: float = TIMEOUT
    progress: Report = ignore
    output: File = ""
    until_wrong: bool = False  # whether the run ends with the first group in which an entry is wrong or fails
    hard: bool = False  # whether entries are tried at hard inputs before they have times
    seconds: float | None = None  # that the run may take; the group at work is then given up
    quiet: Quiet = nullcontext  # what is entered while times are taken
    expected: int = 0  # groups, or other steps of a tool; for the progress
    done: int = field(default=0, init=False)  # of those
    step: Step = field(default=Step("", "start"), init=False)  # the last that was told
    results: Results = field(init=False)  # the run so far
    _workers: Team | None = field(default=None, init=False)
    _pace: Pace | None = field(default=None, init=False)
    _labels: tuple[str, ...] = field(default=(), init=False)  # of the variants of the group at work
    _start: float = field(default=0.0, init=False)
    _load: Watch | None = field(default=None, init=False)  # where something is timed, which load disturbs
    _resumed: int = field(default=0, init=False)  # groups that were done before
    _before: dict[str, float] = field(default_factory=dict, init=False)  # seconds of the run that is resumed, by phase
    _commit: str = field(default="", init=False)  # of the lab's source
    _file: run_file.RunFile = field(default_factory=run_file.RunFile, init=False)
    _replaced: set[str] = field(default_factory=set, init=False)  # functions, before the session began
    _open: bool = field(default=False, init=False)  # whether the device is
    _hard: HardInputs = field(init=False)
    _claim: ExitStack = field(default_factory=ExitStack, init=False)  # on the file

    def __enter__(self) -> Session:
        """Start the first worker. Raises what opening the device raised there."""
        self._start, self._load = perf_counter(), Watch() if self.setup.modes else None
        self._replaced, self._commit = set(genuine.replaced()), commit()  # a worker that was started ahead loads
        with ExitStack() as held:
            if self.output:
                held.enter_context(claimed(self.output))
            count, most = self._opened()
            self._claim = held.pop_all()
        if "processes" in self.options:
            self.options["processes"] = count
            if most > count:
                self.options["up_to"] = most
        self.results = self.new_results()
        self._open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        with self._claim:
            self._closed(kind, error, trace)

    def _opened(self) -> tuple[int, int]:
        """Start the workers; returns how many processes do a group, and how many may. Raises as `__enter__` does."""
        self._workers = Team(self.setup, self.selection, self.timeout, self.tell, self.quiet).__enter__()
        self._hard = HardInputs(lambda group, omit: self.workers.cases(group, False, omit), self.labels)
        return self._workers.count, self._workers.most

    def _closed(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.workers.__exit__(kind, error, trace)

    @property
    def workers(self) -> Team:
        assert self._workers, "the session is not open"
        return self._workers

    @property
    def ready(self) -> Ready:
        """The device that was opened."""
        return self.workers.ready

    def labels(self, group: Rows[Way]) -> list[str]:
        """Of the selected variants that run on the device, in the order of the rows."""
        return [v.label for v in self.selection.variants(group, self.ready.machine.device)]

    # ---- one group at a time -------------------------------------------------------------------------------------

    def cases(self, group: Rows[Way], timed: bool = True) -> list[Case]:
        """Rows of every selected variant of a group that can run here. Not `timed`: they are only checked."""
        self._labels = tuple(self.labels(group))
        cases = self.workers.cases(group, timed and group.timed)
        for case in cases if isinstance(group, Group) else ():  # a study's kinds of time are its own
            limit.refuse(case, self.ready.machine, self.results.calibration)
        if replaced := sorted(set(genuine.replaced()) - self._replaced):  # by a function of a spec that ran here
            refused(cases, genuine.refusal(replaced))
        return cases

    def fitted(self, groups: Sequence[Group], known: Sequence[Case] = ()) -> list[Group]:
        """The groups with a shape for each that is to fit into memory, where the device is open; see `engine/fit.py`.

        `known`: rows of an earlier run, whose shapes are taken, as are those of rows that the run has already.
        """
        if not self._open:  # only their names are asked for
            return list(groups)
        had = self.results.cases
        return [fit.shaped(group, had) or self._fitted_one(group, known) if group.fit else group for group in groups]

    def _fitted_one(self, group: Group, known: Sequence[Case]) -> Group:
        self.tell(Step(str(group), "looking for the size"))
        return fit.fitted(group, self.room(group), known)

    def room(self, group: Group) -> fit.Room:
        """What a group that is to fit into memory may take."""
        here, labels = self.ready, self.workers.labels(group)
        at_once = self.workers.count if here.machine.device == "cpu" else 1
        return fit.Room(here.machine, here.free, labels, self.setup.modes, at_once, self.workers.most)

    def ask(self, task: Task, step: Step, kind: type[T]) -> T | Death:
        """Return the result of a tool's own handler, of type `kind`, or how the worker died; see `Supervisor.ask`."""
        self._labels = ()
        return self.workers.ask(task, step, kind)

    def finished(self, group: Rows[Way], cases: list[Case] | None = None) -> None:
        """Tell that a group is done, with its rows where they are rows of the run."""
        self.done += 1
        rows = None if cases is None else msgspec.structs.replace(self.results, cases=cases)
        self.tell(Step(str(group), FINISHED), rows)

    def add(self, group: Rows[Way], look: Look | None = None, complete: bool = False) -> list[Case]:
        """Do a group: add its rows to the results, write the file, tell it. `complete`: it is the last one."""
        cases = self.judged(group)
        if look:
            assert isinstance(group, Group), "a second look is for kernels"
            self.tell(Step(str(group), look.phase))
            with self.workers.still():  # another clock takes times
                look.add(cases, group)
        self._take(group, cases, complete)
        return cases

    def judged(self, group: Rows[Way]) -> list[Case]:
        """Rows as of `cases`; in a `hard` session, without times of entries that hard inputs show to be wrong."""
        cases = self.cases(group)
        if self.hard and isinstance(group, Group):
            self._hard.judge(cases, group)
        return cases

    def spent(self) -> dict[str, float]:
        """Seconds of this session by phase, and the load while it ran, as in `Results.wall`."""
        load = self._load.seconds() if self._load else {}
        return {**self.workers.wall, "total": perf_counter() - self._start, **load}

    def _take(self, group: Rows[Way], cases: list[Case], complete: bool) -> None:
        """Add the rows of a group to the results, write the file, tell it."""
        if isinstance(group, Group) and group.fitted and cases:
            cases[0].notes.append(group.fitted)
        run, spent = self.results, self.spent()
        run.cases += [*cases, *self.elsewhere(group)]
        run.complete = complete
        run.wall = {name: self._before.get(name, 0.0) + spent.get(name, 0.0) for name in self._before | spent}
        self.keep()
        self.finished(group, cases)

    def elsewhere(self, group: Rows[Way]) -> list[Case]:
        """Rows of the chosen variants that are for another kind of device."""
        return elsewhere(group, self.selection.variants(group), self.ready.machine.device, self.ready.no_gpu)

    def _keep_to_time(self) -> None:
        """Raise OutOfTime after the run's seconds."""
        if self.seconds is not None and perf_counter() - self._start > self.seconds:
            raise OutOfTime

    def tell(self, step: Step, finished: Results | None = None) -> None:
        """Tell how far the session is. Raises OutOfTime where a group is at work after the run's seconds."""
        elapsed = perf_counter() - self._start
        if finished is None:
            self._keep_to_time()
        self.step = step
        turn, count = (self._workers.turn, self._workers.count) if self._workers else (0, 1)
        if self._pace:
            self._pace.reach((self.done - self._resumed) * count + min(turn, count - 1))
        left = self._pace.left() if self._pace else None
        if left is not None and self.seconds is not None:
            left = min(left, max(self.seconds - elapsed, 0.0))
        self.progress(Progress(
            step=step,
            process=turn + 1,
            processes=max(count, turn + 1),
            done=min(self.done, self.expected),
            groups=self.expected,
            elapsed=elapsed,
            left=left,
            labels=self._labels,
            glimpses=self._workers.glimpses() if self._workers else {},
            finished=finished,
        ))  # fmt: skip

    # ---- results -------------------------------------------------------------------------------------------------

    def new_results(self, options: dict[str, Any] | None = None) -> Results:
        """A run without cases; `options` replace the session's own."""
        options = self.options if options is None else options
        return run_file.begun(self.kind, options, self.setup.sources, self._commit, self.ready)

    def keep(self) -> None:
        """Write the results so far to the file, if there is one. Warn of a failure when it begins."""
        self._file.write(self.results, self.output)

    def kept(self) -> str:
        """Write the results so far for the last time, elsewhere if need be; returns where they are, "" for nowhere."""
        self.keep()
        return self._file.place(self.results, self.output)

    # ---- a whole run ---------------------------------------------------------------------------------------------

    def measure(
        self,
        planned: Callable[[str], Sequence[Rows[Way]]],
        resumed: File = "",
        ready: Told = lambda machine: None,
        look: Looks | None = None,
    ) -> Results:
        """Do all groups that `planned` gives for the opened device; the other arguments are those of `bench`.

        `planned` is called with "" before the device is known, for the progress alone.
        """
        need_seconds("timeout", self.timeout, ", or inf")
        if self.seconds is not None:
            need_seconds("seconds", self.seconds)
            if self.seconds == inf:
                raise InputError(f"seconds is {self.seconds} s; leave it out for a run without a limit")
        begun = resume.begun(resumed, self.options, self.setup.sources) if resumed else None
        if begun and not self.setup.processes:
            self.setup.processes = resume.processes(begun)
        if begun and not self.left(begun, planned(begun.machine.device)):
            self.results = begun
            begun.complete = True
            self.keep()
            return begun
        self.setup.calibrate = not begun  # one calibration a file
        self.expected = len(planned(""))
        try:
            return self._measured(planned, begun, resumed, ready, look)
        except OutOfTime:
            groups = planned(self.ready.machine.device) if hasattr(self, "results") else []
            left = self.left(self.results, groups) if groups and self.results.cases else groups
            early.say_out_of_time(left, len(groups), self.seconds, self.output)
            return self.results

    def _measured(
        self, planned: Callable[[str], Sequence[Rows[Way]]], begun: Results | None, resumed: File, ready: Told,
        look: Looks | None,
    ) -> Results:  # fmt: skip
        """Open the device, and refuse what cannot be measured on it before anything is."""
        with self:
            machine, no_gpu = self.ready.machine, self.ready.no_gpu
            ready(machine)
            if begun:
                resume.same_machine(resumed, begun.machine, machine)
                self.results = begun
            groups = planned(machine.device)
            self.expected = len(groups)
            if self.setup.modes and "launch" not in self.setup.modes and machine.device == "cpu":
                needs = f"--modes {','.join(self.setup.modes)} needs a GPU, and {no_gpu}"
                raise Unavailable(f"{needs}; on the CPU --modes launch takes the wall time of a call")
            if not any(self.labels(group) for group in groups):
                reasons = {case.reason for group in groups for case in self.elsewhere(group)}
                raise Unavailable(f"nothing that was chosen can run here: {'; '.join(reasons)}")
            with look(self.ready) if look else nullcontext() as second:
                self._fill(groups, second)
        return self.results

    def run_of(self, groups: Sequence[Rows[Way]], options: dict[str, Any] | None = None) -> Results:
        """Do these groups in the open session: a run of its own, as of `new_results`. Raises as `measure` does."""
        self.results, self.expected = self.new_results(options), len(groups)
        self._fill(groups, None)
        return self.results

    @property
    def width(self) -> int:
        """How many devices do groups at the same time."""
        return 1

    def left(self, run: Results, groups: Sequence[Rows[Way]]) -> list[Rows[Way]]:
        """The groups that are still to be done in a run that was interrupted."""
        return resume.left(run, groups)

    def _fill(self, groups: Sequence[Rows[Way]], look: Look | None) -> None:
        """Do the groups that have no rows in the results yet, and keep what is finished if that is interrupted."""
        run = self.results
        left = self.left(run, groups)
        self._before = dict(run.wall)
        run.complete = False
        count = self._workers.count if self._workers else 1
        share = sampled(self.setup, run.machine.device)
        guesses = [guess(group, len(self.labels(group)), share) for group in left]
        self.done = self._resumed = len(groups) - len(left)
        self._pace = Pace([seconds for seconds in guesses for _ in range(count)])
        try:
            self._do(left, guesses, look)
        except KeyboardInterrupt:
            place = self.kept()  # Ctrl-C may have interrupted an earlier write
            done = len(groups) - len(self.left(run, groups))
            text = f"stopped after {done} of {len(groups)} groups"
            raise Stopped(text, place if self._file.unwritten else "") from None
        except Unavailable as error:
            place = self.kept()
            said = f"; {place} has what was finished; continue with: --resume {place}" if place else ""
            raise Unavailable(f"{error}{said}") from None

    def _do(self, left: list[Rows[Way]], guesses: Sequence[float], look: Look | None) -> None:
        """Do these groups, one after the other; `guesses` are seconds that each might take."""
        run = self.results
        while left:
            self._keep_to_time()  # a group may end before a step of it is told
            group = left.pop(0)
            if self._workers:
                self._workers.later = left
            cases = self.add(group, look, complete=not left)
            left = self.needed(cases, left)
            if not left and not run.complete:
                run.complete = True
                self.keep()
            if self.ends(cases):
                break

    def needed(self, cases: list[Case], left: list[Rows[Way]]) -> list[Rows[Way]]:
        """Those of the groups `left` that a check still does after these rows: what does not compile is not tried again
        at other shapes.
        """
        if self.setup.modes or not not_compiled(cases):
            return left
        needed = resume.left(self.results, left)
        self.expected -= len(left) - len(needed)
        return needed

    def ends(self, cases: list[Case]) -> bool:
        """Whether the run ends with these rows, in which an entry is wrong or fails."""
        return self.until_wrong and any(c.status in record.BROKEN for c in cases if c.backend in record.ENTRIES)
