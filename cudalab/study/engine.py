"""A study's workload in the worker: one round in which each variant is compared with the baseline."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import msgspec
import numpy as np

from cudalab import timing
from cudalab.base.errors import InputError, kept, unknown
from cudalab.checks.parity import compare, joined
from cudalab.device.operands import Bound
from cudalab.engine.job import Job
from cudalab.engine.round import Round
from cudalab.engine.rows import said
from cudalab.results import record
from cudalab.results.record import Case, Parity
from cudalab.spec.dtype import DTYPES
from cudalab.spec.kernel import Budget
from cudalab.study import fields, memory
from cudalab.study.found import StudyWork, Workload
from cudalab.study.lab import Lab
from cudalab.study.record import Variant, Work
from cudalab.timing.clock import Clock

WALL = "wall"
RUNS = 2  # runs before the check: the first compiles and loads, the second is like all later ones


def cases(job: Job, workload: Workload, omit: Collection[str] = ()) -> list[Case]:
    """Rows of every selected variant of a workload, without those whose label is in `omit`.

    Raises ContextLost where the device is no longer usable.
    """
    chosen = [v for v in job.selection.variants(workload, job.device.kind) if v.label not in omit]
    round = _StudyRound(job, workload)
    try:
        return round.rows(chosen)
    finally:
        round.close()
        del round  # and what variants share: torch cannot free it once the device is closed
        job.release(workload)


def ordered(job: Job, payload: msgspec.Raw) -> list[Case]:
    """Handle a `Workload` in the engine's worker."""
    work = msgspec.json.decode(payload, type=StudyWork)
    return cases(job if work.timed else replace(job, modes=()), work.workload(), work.omit)


class _StudyRound(Round[Variant, Work]):
    """The round of one workload."""

    checking = "prepare and check"

    def __init__(self, job: Job, workload: Workload) -> None:
        super().__init__(job, workload)
        self.study, self.least_rounds = workload.study, workload.study.rounds
        self.label = ""  # of the variant at work
        self.lab = Lab(job.device, workload, job.seed, lambda phase: self.at(phase, self.label), job.alive)
        self.wanted: list[np.ndarray] | None = None  # the baseline's result

    def prepare(self, variant: Variant, case: Case) -> None:
        """Make a variant ready, run it, compare what it computed, ask what else it counts."""
        self.label = label = variant.label
        self.at("prepare", label)
        start = perf_counter()
        work = self.works[label] = fields.ready(variant.make(self.lab))
        case.costs["bind"] = perf_counter() - start
        try:
            self._first_runs(work, case)
            if work.result is not None:
                self._compare(work.result(), case, work.tolerance or variant.tolerance or self.study.tolerance)
            if case.status == record.OK:
                self._count(work, case)
        except BaseException:
            self._drop(label)
            raise
        if case.status != record.OK:
            self._drop(label)

    def _first_runs(self, work: Work, case: Case) -> None:
        self.at("first run", self.label)
        start = perf_counter()
        work.run()
        self.lab.synchronize()
        case.costs["first run"] = perf_counter() - start
        for _ in range(RUNS - 1):
            work.run()
        self.lab.synchronize()

    def _compare(self, result: Any, case: Case, tolerance: float) -> None:
        got = arrays(result)
        if case.label == self.study.baseline:
            self.wanted = got
        if self.wanted is None:
            case.notes.append(f"not compared: the baseline, {self.study.baseline}, has no result")
            return
        case.parity = agreement(got, self.wanted, tolerance)
        if not case.parity.ok:
            case.status, case.reason = record.WRONG, case.parity.message

    def _count(self, work: Work, case: Case) -> None:
        if self.study.memory:
            self.at("memory of a run", self.label)
            case.quantities |= memory.peak(self.lab, work.run)
        self.at("counting", self.label)
        case.quantities |= fields.quantities(work.quantities())
        case.notes += work.notes

    def clocks(self, label: str, case: Case) -> Mapping[str, Clock]:
        """The work's own clocks, or those that the study's `kinds` name."""
        self.label, work = label, self.works[label]
        bound = Bound(work.run, lambda: None)
        if work.clocks is not None:
            found = {kind: Clock(sample) for kind, sample in work.clocks.items()}
        else:
            found = {WALL: Clock(self.lab.wall(work.run))} if WALL in self.study.kinds else {}
            if more := [kind for kind in self.study.kinds if kind != WALL and self.lab.cuda]:
                offered = timing.clocks(self.job.device, bound, ("launch",), case.notes)
                for kind in more:
                    if kind not in offered:
                        raise unknown("kind of time", kind, (WALL, *offered))
                found |= {kind: offered[kind] for kind in more}
        if not found:
            wanted = ", ".join(self.study.kinds)
            case.notes.append(f"no {wanted} time: a CPU has only {WALL} and the kinds of a Work's clocks")
        return {kind: replace(clock, sample=partial(_sampled, kind, clock.sample)) for kind, clock in found.items()}

    def timed(self, label: str, case: Case) -> None:
        """Ask what the timed runs have counted."""
        work = self.works[label]

        def count() -> None:
            case.quantities |= fields.quantities(work.afterwards())
            case.notes += [note for note in work.notes if note not in case.notes]  # made while it was timed

        self.guarded(case, count)
        if work.items:
            case.quantities["items"] = float(work.items)

    def _drop(self, label: str) -> None:
        self._closed(self.works.pop(label).close, label)

    def close(self) -> None:
        """Close every work, then what they share."""
        for label in list(self.works):
            self._drop(label)
        self._closed(self.lab.at_end.close, *self.cases)
        vars(self).clear()  # the lab and the round refer to each other

    def _closed(self, close: Callable[[], object], *labels: str) -> None:
        """Call `close`. If it fails, the rows of `labels` get a note: what was measured is still right."""
        try:
            kept(close)
        except Exception as error:  # any library's, of a device that is lost too
            for label in labels:
                self.cases[label].notes.append(f"failed while it was closed: {said(error, self.study)}")


def _sampled(kind: str, sample: Callable[[], object]) -> list[float]:
    return fields.samples(kind, sample())


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
    """Compare the arrays of a result with the baseline's: each difference against the array's largest value.

    The error is in ULP of float32. Whole numbers have to be equal. A baseline without a finite number agrees with
    nothing.
    """
    if len(got) != len(want):
        return Parity(ok=False, message=f"its result has {len(got)} arrays, and the baseline's has {len(want)}")
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
