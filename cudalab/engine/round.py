"""One round of the engine, the same for kernels and studies: make each variant ready, judge it, then time all in turns.

`engine/kernel_round.py` (a kernel's group) and `study/engine.py` (a study's workload) derive from `Round`. They say how
a variant is made ready, how its result is judged, and which clocks it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Generic, TypeVar

import msgspec

from cudalab.base import garbage
from cudalab.base.errors import Broken, LaunchError, NotOnCpu, Unavailable, kept, message_of
from cudalab.engine.job import Job
from cudalab.engine.messages import TIMING, Glimpse, Step
from cudalab.engine.rows import row, said
from cudalab.engine.selection import Rows, Way
from cudalab.results import record
from cudalab.results.record import Case
from cudalab.timing import rounds
from cudalab.timing.clock import Clock

V = TypeVar("V", bound=Way)  # a variant
W = TypeVar("W")  # a variant made ready

Clocks = Mapping[str, Mapping[str, Clock]]  # by label, then by kind of time
LOADED_ROUNDS = 3  # rounds at least, in all processes of a run, of clocks that load the device


class Round(Generic[V, W]):
    """The variants of one group: what is ready, and the rows."""

    checking = "check"  # the name of the first phase in the results' `wall`
    least_rounds = rounds.LEAST_ROUNDS
    loaded = False  # whether the rounds are those of clocks that load the device for seconds

    def __init__(self, job: Job, group: Rows[V]) -> None:
        self.job, self.group = job, group
        self.cases: dict[str, Case] = {}  # the rows, by label
        self.works: dict[str, W] = {}  # the variants that are right and will be timed, by label
        self.glimpses: dict[str, Glimpse] = {}

    def needed(self, variant: V) -> bool:
        """Whether the variant gets a row, after what the variants before it have shown."""
        return True

    def prepare(self, variant: V, case: Case) -> None:
        """Make a variant ready, run it and judge its result. Put it into `works` if it is right and has times."""
        raise NotImplementedError

    def before_timing(self) -> None:
        """Add to `works` what is timed beside the variants."""

    def clocks(self, label: str, case: Case) -> Mapping[str, Clock]:
        """The clocks of `works[label]` by kind of time, the main one first."""
        raise NotImplementedError

    def after_turn(self, label: str) -> None:
        """Called after each round's samples of a variant."""

    def after_samples(self) -> None:
        """Called at once after the last sample, while the device is warm."""

    def timed(self, label: str, case: Case) -> None:
        """Called for each variant that has times."""

    def loaded_up(self, label: str, case: Case) -> None:
        """Called for each variant that has samples of clocks that load the device."""

    def rows(self, variants: Sequence[V]) -> list[Case]:
        """Judge all variants, then time those that are right, and return every row.

        A variant that fails loses only its own row. Raises ContextLost where the device is no longer usable.
        """
        with self.job.phase(self.checking):
            for variant in variants:
                if not self.needed(variant):
                    continue
                label = variant.label
                case = self.cases[label] = row(self.group, label)
                start = perf_counter()
                self.guarded(case, lambda: self.prepare(variant, case))  # noqa: B023 (called at once)
                if self.job.modes and "bind" in case.costs:
                    case.costs["check"] = perf_counter() - start - sum(case.costs.values())
                self.glimpses[label] = Glimpse(case.status, case.parity.max_ulp if case.parity else 0.0)
                self.job.glimpse(self.glimpses)
        if self.job.modes:
            bad = tuple(label for label in self.cases if label not in self.works)
            for label in self.job.wait(self.group, bad):
                self.works.pop(label, None)
            with self.job.phase("timing"), garbage.little():
                clocks = self._all_clocks()
                self._time(_of_mode(clocks, ""))
                for mode in dict.fromkeys(clock.mode for of in clocks.values() for clock in of.values() if clock.mode):
                    self._load(mode, _of_mode(clocks, mode))
        return list(self.cases.values())

    def _all_clocks(self) -> Clocks:
        self.before_timing()
        found: dict[str, Mapping[str, Clock]] = {}
        for label in self.works:
            self.at("prepare to time", label)
            case = self.cases[label]
            start = perf_counter()
            self.guarded(case, lambda: found.update({label: self.clocks(label, case)}))  # noqa: B023
            case.costs["clocks"] = perf_counter() - start
        return {
            label: {kind: self._watched(clock, label, kind, not i) for i, (kind, clock) in enumerate(clocks.items())}
            for label, clocks in found.items()
        }

    def _watched(self, clock: Clock, label: str, kind: str, first: bool) -> Clock:
        """`clock`, which also tells its step before each sample, and, if it is the `first` kind, its first time."""
        step = Step(str(self.group), TIMING + kind, label)

        def sample() -> list[float]:
            self.job.at(step)
            try:
                taken = kept(clock.sample)
            except Exception as error:
                self.job.survived(self.group, error)
                raise
            # Told once: telling takes some microseconds.
            if first and not (seen := self.glimpses.get(label, Glimpse())).seconds:
                self.glimpses[label] = msgspec.structs.replace(seen, seconds=taken[len(taken) // 2])
                self.job.glimpse(self.glimpses)
            return taken

        return replace(clock, sample=sample)

    def _time(self, clocks: Clocks) -> None:
        job = self.job
        least = job.share(self.least_rounds)
        taken = rounds.take(clocks, job.order_seed, job.budget, job.order, least, self.after_turn)
        self.after_samples()
        for label, found in taken.items():
            case = self.cases[label]
            found.error = found.error or self._refuted(label, clocks[label], found.rounds)
            if case.status == record.WRONG:  # in a timed run
                continue
            if found.error:
                case.status, case.reason = record.ERROR, found.error
                continue
            case.times = {kind: samples for kind, samples in found.rounds.items() if samples}
            case.costs["timing"] = found.seconds
            self.timed(label, case)

    def _load(self, mode: str, clocks: Clocks) -> None:
        """Sample the clocks of a mode that loads the device, in rounds of their own. Where one fails, the row has a
        note and keeps its times.
        """
        job = self.job
        clocks = {label: of for label, of in clocks.items() if of and self.cases[label].times}
        if not clocks:
            return
        budget = max(sum(clock.budget for clock in of.values()) for of in clocks.values()) / job.processes
        least = -(-LOADED_ROUNDS // job.processes)
        self.loaded = True
        for label, found in rounds.take(clocks, job.order_seed, budget, job.order, least, self.after_turn).items():
            case, quantities = self.cases[label], dict[str, float]()
            try:
                for clock in clocks[label].values() if not found.error else ():
                    quantities |= clock.quantities()
            except LaunchError as error:
                found.error = str(error)
            if case.status == record.WRONG:
                continue
            if found.error:
                case.notes.append(f"no {mode}: {found.error}")
                continue
            case.times |= {kind: samples for kind, samples in found.rounds.items() if samples}
            case.quantities |= quantities
            case.costs["timing"] = case.costs.get("timing", 0.0) + found.seconds
            self.loaded_up(label, case)
        self.loaded = False

    def _refuted(self, label: str, clocks: Mapping[str, Clock], taken: Mapping[str, list[list[float]]]) -> str:
        """Why a variant's samples are not what one more run takes; an empty text if they are."""
        self.at("confirming the time", label)
        try:
            for kind, clock in clocks.items():
                if taken[kind]:
                    kept(partial(clock.confirm, taken[kind]))
            self.after_turn(label)
        except Exception as error:
            self.job.survived(self.group, error)
            return f"failed while it was timed: {message_of(error)}"
        return ""

    def guarded(self, case: Case, what: Callable[[], object]) -> None:
        """Call `what`. An error goes into this row, unless the device is lost."""
        broken = True
        try:
            kept(what)
            broken = False
        except Unavailable as error:
            case.status = record.ERROR if isinstance(error, Broken) else record.SKIPPED
            case.reason = str(error)
            case.lose_times()
            if isinstance(error, NotOnCpu):  # told by the compiler, or by a launch
                case.costs = {"nvcc": error.compiled}
        except Exception as error:  # any library's
            self.failed(case, error)
        self.job.survived(self.group)
        if broken:
            self.mend()

    def mend(self) -> None:
        """Called after a failure, on a device that still works: undo what the variant did to arrays that others use."""

    def failed(self, case: Case, error: Exception) -> None:
        """Write an error into its row; raise ContextLost if the device is lost."""
        self.job.survived(self.group, error)
        case.status, case.reason = record.ERROR, said(error, self.group)
        case.lose_times()

    def at(self, phase: str, label: str) -> None:
        """Tell what is done next, so that a crash or a hang is blamed on it."""
        self.job.at(Step(str(self.group), phase, label))


def _of_mode(clocks: Clocks, mode: str) -> Clocks:
    return {label: {kind: c for kind, c in of.items() if c.mode == mode} for label, of in clocks.items()}
