"""The engine of a run, inside the worker: check, then time. No number without a passed check, and every variant
leaves a row.
"""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter

import msgspec
import numpy as np

from cudalab import interop, measure, results, values
from cudalab.backends import Bound, Operands
from cudalab.devices import Clock, Device
from cudalab.errors import CudalabError, OverrunError, Unavailable
from cudalab.messages import Glimpse, Step
from cudalab.parity import compare, error_curve, expected, joined
from cudalab.plan import Group, Selection, Variant
from cudalab.results import Case, Parity
from cudalab.spec import Arrays, Budget, Kernel
from cudalab.text import encodable
from cudalab.tuning import stored

REFERENCE = "numpy"  # the backend that runs the spec's reference

BEGIN, RELEASE = Step("", "start"), "releasing the arrays"


class ContextLost(BaseException):
    """A CUDA error after which every call in this process fails.

    Not an Exception: it has to pass everything that takes an error for the matter of one variant.
    """

    def __init__(self, step: Step, reason: str) -> None:
        super().__init__(f"{step}: {reason}")
        self.step, self.reason = step, reason


@dataclass
class Job:
    """What all groups of a run have in common."""

    device: Device
    selection: Selection
    modes: tuple[str, ...]
    seed: int
    budget: float
    progress: Callable[[Step], None]  # told before each step, so that a crash or a hang is blamed on the right one
    wall: dict[str, float] = field(default_factory=dict)
    order: str = "shuffled"
    step: Step = BEGIN  # the last that was told
    glimpse: Callable[[Mapping[str, Glimpse]], None] = lambda found: None  # told what is known so far of a group

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time spent inside to `wall[name]`."""
        start = perf_counter()
        try:
            yield
        finally:
            self.wall[name] = self.wall.get(name, 0.0) + perf_counter() - start

    def at(self, step: Step) -> None:
        self.step = step
        self.progress(step)

    def cases(self, group: Group, omit: Collection[str] = ()) -> list[Case]:
        """Rows of every selected variant of one group, without those whose label is in `omit`.

        Raises ContextLost where the device is no longer usable.
        """
        found = self.selection.variants(group, self.device.kind)
        variants = [v for v in found if v.label not in omit]
        rows = self._released(group, variants, omit)
        for part in range(1, group.parts):
            ran = {row.label for row in rows if row.status in (results.OK, results.WRONG)}
            more = self._released(group, [v for v in variants if v.label in ran], omit, part)
            rows = [_both(row, next((m for m in more if m.label == row.label), None)) for row in rows]
        return rows

    def _released(self, group: Group, variants: list[Variant], omit: Collection[str], part: int = 0) -> list[Case]:
        try:
            return self._cases(group, variants, omit, part)
        finally:
            if self.device.alive():
                self.at(Step(str(group), RELEASE))
                self.device.release()
                gc.collect()  # results that libraries returned, graphs with memory of their own

    def _cases(self, group: Group, variants: list[Variant], omit: Collection[str], part: int) -> list[Case]:
        try:
            with self.phase("inputs and reference"):
                self.at(Step(str(group), "inputs"))
                arrays = group.arrays(self.seed, part)
                self.at(Step(str(group), "reference"))
                want = expected(group.kernel, arrays)
                self.at(Step(str(group), "placing the arrays"))
                placed = self.device.place(group.kernel, group.dtype, arrays, group.offsets)
                operands = replace(placed, seed=self.seed)
        except Exception as error:  # the spec's own, or out of memory: nothing of this group can be run
            self.survived(group.kernel, error)
            reason = f"cannot make inputs and reference: {said(error, group.kernel)}"
            return [failed(group, v.label, reason) for v in variants]
        return _Round(self, group, arrays, want, operands).rows(variants, "copy" not in omit)

    def survived(self, kernel: Kernel, error: Exception | None = None) -> None:
        """Raise ContextLost if the device does not work any more."""
        if not self.device.alive():
            raise ContextLost(self.step, said(error, kernel) if error else "the device does not answer any more")


class _Round:
    """One group at work."""

    def __init__(self, job: Job, group: Group, arrays: Arrays, want: np.ndarray, operands: Operands) -> None:
        self.job, self.group, self.arrays, self.want, self.operands = job, group, arrays, want, operands
        self.bounds: dict[str, Bound] = {}  # what is right, and worth a time
        self.cases: dict[str, Case] = {}
        self.budgets: dict[str, Budget] = {}  # by label
        self.judged: dict[Hashable, Parity] = {}  # by the output's fingerprint and the budget
        self.glimpses: dict[str, Glimpse] = {}

    def rows(self, variants: list[Variant], with_copy: bool) -> list[Case]:
        """Rows of `variants`, and of a plain copy where that is timed."""
        with self.job.phase("compile and check"):
            for variant in variants:
                self._checked(self._first_run(variant))
                self.job.survived(self.group.kernel)
        if not self.job.modes:
            return list(self.cases.values())
        with self.job.phase("timing"):
            clocks = self._clocks(with_copy)
            self._time(clocks)
        with self.job.phase("check after timing"):
            for label in self.bounds:
                self._at("check after timing", label)
                for work in {id(c.work): c.work for c in clocks.get(label, {}).values()}.values():
                    self._verify(self.cases[label], work)
        return list(self.cases.values())

    def _at(self, phase: str, label: str) -> None:
        self.job.at(Step(str(self.group), phase, label))

    def _checked(self, case: Case) -> None:
        """Keep the row of a variant that has been checked, and let it be seen."""
        self.cases[case.label] = case
        self.glimpses[case.label] = Glimpse(case.status, case.parity.max_ulp if case.parity else 0.0)
        self.job.glimpse(self.glimpses)

    def _first_sample(self, label: str, seconds: float) -> None:
        """Let the first sample be seen; no other, since telling takes some microseconds."""
        seen = self.glimpses.get(label, Glimpse())
        if not seen.seconds:
            self.glimpses[label] = msgspec.structs.replace(seen, seconds=seconds)
            self.job.glimpse(self.glimpses)

    def _failed(self, case: Case, error: Exception) -> None:
        """An error costs this row and no other, unless it took the device with it."""
        self.job.survived(self.group.kernel, error)
        case.status, case.reason, case.times = results.ERROR, said(error, self.group.kernel), {}
        if isinstance(error, OverrunError):
            case.status, case.parity = results.WRONG, Parity(ok=False, n=self.want.size, message=case.reason)

    def _first_run(self, variant: Variant) -> Case:
        """The variant's row after its first run: right, WRONG, skipped or an error."""
        case = row(self.group, variant.label)
        case.nbytes = sum(a.nbytes for a in self.operands.inputs.values()) + self.operands.output.nbytes
        try:
            if reason := variant.backend.missing(self.job.device.kind):
                raise Unavailable(reason)
            self._at("compile", variant.label)
            start = perf_counter()
            kernel, notes = stored.for_variant(self.group.kernel, variant, self.group.dtype, self.job.device)
            case.parameters = kernel.parameters if variant.name in kernel.entries else {}
            case.notes += notes
            bound = variant.backend.bind(kernel, variant.name, self.group.dtype, self.operands)
            case.costs = {"bind": perf_counter() - start}
            self._at("first run", variant.label)
            case.costs["first run"] = self.job.device.warm_up(bound)
        except Unavailable as error:
            case.status, case.reason = results.SKIPPED, str(error)
        except Exception as error:  # any library's
            self._failed(case, error)
        else:
            case.composed = variant.backend.budget == "composed"
            self.budgets[variant.label] = self.group.kernel.budget(self.group.dtype, variant.backend.budget)
            self._at("check", variant.label)
            self._verify(case, bound)
            for how, other in bound.also.items() if not self.group.values else ():  # those are about values, and many
                self._verify(case, other, how)
            if case.status == results.OK and variant.backend.timed:
                self.bounds[variant.label] = bound
        return case

    def _verify(self, case: Case, work: Bound, how: str = "") -> None:
        """Poison the output, run once, compare. What is wrong keeps no time."""
        if case.status != results.OK:
            return
        try:
            parity = self._compare(work, self.budgets[case.label])
        except Exception as error:
            self._failed(case, error)
            return
        if not parity.ok:
            case.status, case.reason, case.times = results.WRONG, parity.message, {}
            case.reason += f" ({how})" if how else ""
            if case.backend == REFERENCE and self.group.dtype.floating and self.group.dtype.itemsize < 8:
                case.notes.append("the reference itself, in float32, is WRONG too: is the budget too small?")
        case.parity = parity

    def _compare(self, work: Bound, budget: Budget) -> Parity:
        device, dtype = self.job.device, self.group.dtype
        device.poison(work.output())
        work.run()
        result = interop.as_plain(work.output())
        bits = device.fingerprint(result)
        seen = (bits, result.shape, result.dtype, budget)
        if touched := device.tampered(self.operands):
            device.restore(self.arrays)  # the next variant is not to be blamed for it
            return Parity(ok=False, n=self.want.size, message=touched)
        if bits is not None and seen in self.judged:
            return self.judged[seen]  # the same bits have been compared, element by element
        got = device.fetch(result)
        parity = compare(got, self.want, dtype, budget)
        if self.group.kernel.pointwise and parity.worst:
            given = (f"{name} = {a.reshape(-1)[parity.worst_at]}" for name, a in self.arrays.items())
            parity.worst += f" for {', '.join(given)}"
        if self.group.values == values.EVERY and dtype.itemsize == 2 and (parity.ok or parity.wrong):
            parity.curve = error_curve(next(iter(self.arrays.values())), got, self.want, dtype)
        self.judged[seen] = parity
        return parity

    def _clocks(self, with_copy: bool) -> dict[str, dict[str, Clock]]:
        """Clocks of everything that is to be timed, and of a plain copy of as many bytes."""
        bounds = dict(self.bounds)
        if with_copy and (copy := self._copy()):
            bounds["copy"] = copy
        clocks = {}
        for label, bound in bounds.items():
            self._at("prepare to time", label)
            case = self.cases[label]
            try:
                found = self.job.device.clocks(bound, self.job.modes, case.notes)
            except Exception as error:
                self._failed(case, error)
                continue
            self.job.survived(self.group.kernel)
            if "graph" in found:
                case.costs["graph build"] = found["graph"].build_seconds
            clocks[label] = {
                kind: self._watched(clock, label, kind, main=i == 0) for i, (kind, clock) in enumerate(found.items())
            }
        return clocks

    def _copy(self) -> Bound | None:
        """A plain copy of as many bytes as the variants read and write, and its row."""
        nbytes = next((self.cases[label].nbytes for label in self.bounds), 0)
        if not nbytes:
            return None
        self._at("prepare to time", "copy")
        case = row(self.group, "copy")
        case.nbytes, case.status = nbytes, results.CEILING
        try:
            copy = self.job.device.copy(nbytes)
        except Exception as error:  # out of memory: it needs as much again as the variants
            self._failed(case, error)
            copy = None
        if copy or case.status == results.ERROR:
            self.cases["copy"] = case
        return copy

    def _watched(self, clock: Clock, label: str, kind: str, main: bool) -> Clock:
        """The same clock, known to be at work while it takes samples."""
        step = Step(str(self.group), f"timing, {kind}", label)

        def sample() -> list[float]:
            self.job.at(step)
            try:
                taken = clock.sample()
            except Exception as error:
                self.job.survived(self.group.kernel, error)
                raise
            if main:
                self._first_sample(label, taken[len(taken) // 2])
            return taken

        return replace(clock, sample=sample)

    def _time(self, clocks: dict[str, dict[str, Clock]]) -> None:
        every = measure.take(clocks, self.job.seed, self.job.budget, self.job.order)
        if "copy" in self.cases:
            self._at("clocks and power", "copy")
            try:
                self.cases["copy"].condition = self.job.device.condition()
            except Exception as error:  # it needs memory of its own
                self.job.survived(self.group.kernel, error)
                self.cases["copy"].notes.append(f"clocks and power are not known: {said(error, self.group.kernel)}")
        for label, taken in every.items():
            case = self.cases[label]
            if taken.error:
                case.status, case.reason = results.ERROR, taken.error
            else:
                case.times = taken.rounds
                case.costs["timing"] = taken.seconds


def _both(before: Case, part: Case | None) -> Case:
    """The row of a variant whose inputs came in parts; None: it failed before this one."""
    if part is None or part.parity is None or before.parity is None:
        return part or before
    part.parity = joined([before.parity, part.parity])
    part.status, part.reason = (results.OK, "") if part.parity.ok else (results.WRONG, part.parity.message)
    return part


def row(group: Group, label: str) -> Case:
    """An empty row of one variant."""
    backend, _, variant = label.partition(":")
    return Case(group.name, group.size, group.shape, group.dtype.name, backend, variant)


def skipped(group: Group, label: str, reason: str) -> Case:
    """The row of a variant that cannot run here."""
    case = row(group, label)
    case.status, case.reason = results.SKIPPED, reason
    return case


def failed(group: Group, label: str, reason: str) -> Case:
    """The row of a variant that could not be run."""
    case = row(group, label)
    case.status, case.reason = results.ERROR, reason
    return case


def said(error: Exception, kernel: Kernel) -> str:
    """An error as a row shows it: our own as they are, others with their type and the line of the spec, if any."""
    if isinstance(error, CudalabError):
        return encodable(str(error))
    name = type(error).__name__
    what = f"out of memory: {error}" if "MemoryError" in name or "OutOfMemory" in name else f"{name}: {error}"
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == kernel.file]
    return encodable(f"{what} ({Path(kernel.file).name}, line {lines[-1]})" if lines else what)
