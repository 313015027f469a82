"""A study's workload, inside the worker: prepare every variant, compare its result, then time all in rounds."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

import msgspec
import numpy as np

from cudalab.base.errors import CudalabError, InputError, Unavailable, unknown
from cudalab.checks.parity import compare, joined
from cudalab.device.operands import Bound
from cudalab.engine.job import RELEASE, Job
from cudalab.engine.messages import Glimpse, Step
from cudalab.engine.rows import row, said
from cudalab.results import record
from cudalab.results.record import Case, Parity
from cudalab.spec.dtype import DTYPES
from cudalab.spec.kernel import Budget
from cudalab.study import Variant, Work, fields, memory
from cudalab.study.found import StudyWork, Workload
from cudalab.study.lab import Lab
from cudalab.timing import rounds as measure
from cudalab.timing.clock import Clock

T = TypeVar("T")
WALL = "wall"
RUNS = 2  # before the check: the first compiles and loads, the second is as all later ones


def cases(job: Job, workload: Workload, omit: Collection[str] = ()) -> list[Case]:
    """Rows of every selected variant of a workload, without those whose label is in `omit`.

    Raises ContextLost where the device is no longer usable.
    """
    chosen = [v for v in job.selection.variants(workload, job.device.kind) if v.label not in omit]
    round = _Round(job, workload)
    try:
        return round.rows(chosen)
    finally:
        round.close()
        del round  # and with it what variants share: torch cannot free it once the device is closed
        if job.device.alive():
            job.at(Step(str(workload), RELEASE))
            job.device.release()
            gc.collect()


def ordered(job: Job, payload: msgspec.Raw) -> list[Case]:
    """The handler of a `Workload` in the engine's worker."""
    work = msgspec.json.decode(payload, type=StudyWork)
    return cases(job if work.timed else replace(job, modes=()), work.workload(), work.omit)


class _Round:
    """One workload at work."""

    def __init__(self, job: Job, workload: Workload) -> None:
        self.job, self.workload, self.study = job, workload, workload.study
        self.label = ""  # of the variant at work
        self.lab = Lab(job.device, workload, job.seed, self._at)
        self.cases: dict[str, Case] = {}
        self.works: dict[str, Work] = {}  # what is right, and worth a time
        self.glimpses: dict[str, Glimpse] = {}
        self.wanted: list[np.ndarray] | None = None  # the baseline's result

    def rows(self, variants: list[Variant]) -> list[Case]:
        with self.job.phase("prepare and check"):
            for variant in variants:
                self.label = variant.label
                case = self.cases[variant.label] = row(self.workload, variant.label)
                self._guarded(case, lambda: self._prepare(variant, case))  # noqa: B023 (called at once)
                self.glimpses[variant.label] = Glimpse(case.status, case.parity.max_ulp if case.parity else 0.0)
                self.job.glimpse(self.glimpses)
        if self.job.modes:
            with self.job.phase("timing"):
                self._time()
        return list(self.cases.values())

    def close(self) -> None:
        for label in list(self.works):
            self._drop(label)
        self._closed(self.lab.at_end.close, *self.cases)
        vars(self).clear()  # the lab and this refer to one another

    def _at(self, phase: str) -> None:
        self.job.at(Step(str(self.workload), phase, self.label))

    def _guarded(self, case: Case, what: Callable[[], object]) -> None:
        """An error costs this row and no other, unless it took the device with it."""
        try:
            _kept(what)
        except Unavailable as error:
            case.status, case.reason = record.SKIPPED, str(error)
        except Exception as error:  # any library's
            self.job.survived(self.study, error)
            case.status, case.reason, case.times = record.ERROR, said(error, self.study), {}
        self.job.survived(self.study)

    def _prepare(self, variant: Variant, case: Case) -> None:
        """Make it ready, run it, compare what it computed, ask what else it counts."""
        self._at("prepare")
        start = perf_counter()
        work = fields.ready(variant.make(self.lab))
        case.costs["bind"] = perf_counter() - start
        self.works[variant.label] = work
        try:
            self._first_runs(work, case)
            if work.result is not None:
                self._compare(work.result(), case, variant.tolerance or self.study.tolerance)
            if case.status == record.OK:
                self._count(work, case)
        except BaseException:
            self._drop(variant.label)
            raise
        if case.status != record.OK:
            self._drop(variant.label)

    def _count(self, work: Work, case: Case) -> None:
        if self.study.memory:
            self._at("memory of a run")
            case.quantities |= memory.peak(self.lab, work.run)
        self._at("counting")
        case.quantities |= fields.quantities(work.quantities())
        case.notes += work.notes

    def _first_runs(self, work: Work, case: Case) -> None:
        self._at("first run")
        start = perf_counter()
        work.run()
        self.lab.synchronize()
        case.costs["first run"] = perf_counter() - start
        for _ in range(RUNS - 1):
            work.run()
        self.lab.synchronize()

    def _drop(self, label: str) -> None:
        self._closed(self.works.pop(label).close, label)

    def _closed(self, close: Callable[[], object], *labels: str) -> None:
        """Give back what variants held. Where that fails their rows say so: what was measured is no worse for it."""
        try:
            _kept(close)
        except Exception as error:  # any library's, of a device that is lost too
            for label in labels:
                self.cases[label].notes.append(f"failed while it was closed: {said(error, self.study)}")

    def _compare(self, result: Any, case: Case, tolerance: float) -> None:
        got = arrays(result)
        if case.label == self.study.baseline:
            self.wanted = got
        if self.wanted is None:
            case.notes.append(f"not compared: {self.study.baseline}, to which it should be equal, has no result")
            return
        case.parity = agreement(got, self.wanted, tolerance)
        if not case.parity.ok:
            case.status, case.reason = record.WRONG, case.parity.message

    def _time(self) -> None:
        clocks = {}
        for label, work in list(self.works.items()):
            self.label = label
            self._guarded(self.cases[label], lambda: clocks.update({label: self._clocks(label, work)}))  # noqa: B023
        taken = measure.take(clocks, self.job.seed, self.job.budget, self.job.order, self.study.rounds)
        for label, found in taken.items():
            case = self.cases[label]
            if found.error:
                case.status, case.reason = record.ERROR, found.error
                continue
            case.times = {kind: rounds for kind, rounds in found.rounds.items() if rounds}
            self._guarded(case, lambda: self._count_afterwards(label, case))  # noqa: B023 (called at once)
            case.costs["timing"] = found.seconds
            if items := self.works[label].items:
                case.quantities["items"] = float(items)

    def _count_afterwards(self, label: str, case: Case) -> None:
        case.quantities |= fields.quantities(self.works[label].afterwards())
        case.notes += [note for note in self.works[label].notes if note not in case.notes]  # made while it was timed

    def _clocks(self, label: str, work: Work) -> dict[str, Clock]:
        self._at("prepare to time")
        case, bound = self.cases[label], Bound(work.run, lambda: None)
        if work.clocks is not None:
            found = {kind: Clock(sample, bound) for kind, sample in work.clocks.items()}
        else:
            found = {WALL: Clock(self.lab.wall(work.run), bound)} if WALL in self.study.kinds else {}
            if more := [kind for kind in self.study.kinds if kind != WALL and self.lab.cuda]:
                offered = self.job.device.clocks(bound, ("launch",), case.notes)
                for kind in more:
                    if kind not in offered:
                        raise unknown("kind of time", kind, (WALL, *offered))
                found |= {kind: offered[kind] for kind in more}
        if not found:
            wanted = ", ".join(self.study.kinds)
            case.notes.append(f"not timed, {wanted}: on a CPU there is {WALL}, and what a Work's clocks give")
        return {
            kind: self.job.watched(
                replace(clock, sample=partial(_sampled, kind, clock.sample)),
                Step(str(self.workload), f"timing, {kind}", label), self.study, self.glimpses,
            )
            for kind, clock in found.items()
        }  # fmt: skip


def _sampled(kind: str, sample: Callable[[], object]) -> list[float]:
    return fields.samples(kind, _kept(sample))


def _kept(call: Callable[[], T]) -> T:
    """What it returns. What would end the worker costs a row and no more."""
    try:
        return call()
    except (SystemExit, KeyboardInterrupt) as error:
        raise CudalabError(f"it ended Python by {type(error).__name__}") from error


def arrays(result: Any) -> list[np.ndarray]:
    """All tensors, arrays and numbers of a result, in their order, as float64 or int64 in host memory."""
    if isinstance(result, Mapping):
        return [array for part in result.values() for array in arrays(part)]
    if isinstance(result, (list, tuple)):
        return [array for part in result for array in arrays(part)]
    if hasattr(result, "detach"):
        result = result.detach().cpu()
        result = (result.double() if result.is_floating_point() else result).numpy()
    array = np.asarray(result)
    if array.dtype.kind not in "fiub":
        kind = f"an array of {array.dtype}" if isinstance(result, np.ndarray) else type(result).__name__
        raise InputError(f"a result holds {kind}; give tensors, arrays and numbers")
    return [array.astype(np.float64 if array.dtype.kind == "f" else np.int64)]


def agreement(got: list[np.ndarray], want: list[np.ndarray], tolerance: float) -> Parity:
    """How results compare: each array's largest difference against its largest value. In ULP of float32.

    Whole numbers have to be the same, and a baseline without a finite number agrees with nothing.
    """

    if len(got) != len(want):
        return Parity(ok=False, message=f"its result has {len(got)} arrays, the baseline's {len(want)}")
    parts = []
    for ours, theirs in zip(got, want, strict=True):
        if ours.dtype == theirs.dtype == np.int64:
            parts.append(compare(ours, theirs, DTYPES["int64"], Budget(0)))
            continue
        if theirs.size and not np.isfinite(theirs).any():
            return Parity(ok=False, n=theirs.size, message="the baseline's result has no finite number")
        scale = float(np.abs(theirs).max(initial=0.0, where=np.isfinite(theirs)))  # inf allows anything
        with np.errstate(over="ignore"):
            rounded = ours.astype(np.float32)
        parts.append(compare(rounded, theirs, DTYPES["float32"], Budget(1.0, tolerance * scale, "of a study")))
    return joined(parts) if parts else Parity(ok=True)
