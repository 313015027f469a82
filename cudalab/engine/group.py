"""A kernel's group in the worker: make inputs and reference, then one round over its variants.

The order of a verdict: fill the output with a poison, run, look for writes where no kernel may write, compare with the
reference. A variant whose result is wrong has no time, and results are judged again after timing.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any

import msgspec
import numpy as np

from cudalab import timing
from cudalab.base.errors import OverrunError, Unavailable
from cudalab.checks import hard_inputs, parity
from cudalab.device import cuda
from cudalab.device.arrays import as_plain
from cudalab.device.guard import OTHER_POISON, POISON_BYTE
from cudalab.device.operands import Bound, Operands
from cudalab.engine.job import Job
from cudalab.engine.messages import Step
from cudalab.engine.plan import Group, Variant
from cudalab.engine.round import Clocks, Round
from cudalab.engine.rows import failed, row, said
from cudalab.results import record
from cudalab.results.record import Case, Parity
from cudalab.spec import tuned
from cudalab.spec.kernel import Arrays, Budget
from cudalab.timing.clock import Clock

REFERENCE = "numpy"  # the backend that runs the spec's reference
AFTER = "check after timing"


def cases(job: Job, group: Group, omit: Collection[str] = ()) -> list[Case]:
    """Rows of every selected variant of a group, without those whose label is in `omit`.

    Where the inputs come in parts, each variant runs on all of them. Raises ContextLost where the device is no longer
    usable.
    """
    variants = [v for v in job.selection.variants(group, job.device.kind) if v.label not in omit]
    rows: list[Case] = []
    for part in range(group.parts):
        try:
            found = _rows_of_part(job, group, variants, record.COPY not in omit, part)
        finally:
            job.release(group)
        rows = [_both(before, found) for before in rows] if part else found
        ran = {case.label for case in rows if case.status in (record.OK, record.WRONG)}
        variants = [v for v in variants if v.label in ran]
    return rows


def _rows_of_part(job: Job, group: Group, variants: list[Variant], with_copy: bool, part: int) -> list[Case]:
    try:
        with job.phase("inputs and reference"):
            job.at(Step(str(group), "inputs"))
            arrays = group.arrays(job.seed, part)
            job.at(Step(str(group), "reference"))
            want = parity.expected(group.kernel, arrays)
            job.at(Step(str(group), "placing the arrays"))
            operands = replace(job.device.place(group.kernel, group.dtype, arrays, group.offsets), seed=job.seed)
    except Exception as error:  # the spec's own, or out of memory: no variant of this group can run
        job.survived(group, error)
        reason = f"cannot make inputs and reference: {said(error, group)}"
        return [failed(group, v.label, reason) for v in variants]
    return _KernelRound(job, group, arrays, want, operands, with_copy).rows(variants)


def _both(before: Case, found: list[Case]) -> Case:
    """A variant's row of all parts so far: `found` has the row of the next part, unless it was left out."""
    part = next((case for case in found if case.label == before.label), None)
    if part is None or part.parity is None or before.parity is None:
        return part or before
    part.parity = parity.joined([before.parity, part.parity])
    part.status, part.reason = (record.OK, "") if part.parity.ok else (record.WRONG, part.parity.message)
    return part


class _KernelRound(Round[Variant, Bound]):
    """The round of one group, on arrays that are placed on the device."""

    checking = "compile and check"

    def __init__(
        self, job: Job, group: Group, arrays: Arrays, want: np.ndarray, operands: Operands, with_copy: bool
    ) -> None:
        super().__init__(job, group)
        self.group: Group = group
        self.device, self.kernel, self.dtype = job.device, group.kernel, group.dtype
        self.arrays, self.want, self.operands, self.with_copy = arrays, want, operands, with_copy
        self.budgets: dict[str, Budget] = {}  # by label
        self.compared: dict[Hashable, Parity] = {}  # by the output's fingerprint and the budget
        # Where the first poison may be the right value, an element that is never written would look right.
        hidden = not self.dtype.floating or (want.dtype.kind == "f" and bool(np.isnan(want.max(initial=-np.inf))))
        self.poisons = (POISON_BYTE, OTHER_POISON) if hidden else (POISON_BYTE,)

    def prepare(self, variant: Variant, case: Case) -> None:
        """Bind a variant, run it once, and judge every way to run it."""
        label, backend = variant.label, variant.backend
        case.nbytes = sum(a.nbytes for a in self.operands.inputs.values()) + self.operands.output.nbytes
        bound = self._bind(variant, case)
        self.at("first run", label)
        first = None
        if backend.timed:
            case.costs["first run"] = timing.warm_up(self.device, bound)
        else:  # the CPU's, which ends with the call
            start = perf_counter()
            bound.run()
            case.costs["first run"] = perf_counter() - start
            first = self.device.fetch(as_plain(bound.output()))
        case.composed = backend.budget == "composed"
        self.budgets[label] = self.kernel.budget(self.dtype, backend.budget)

        self.at("check", label)
        self._verify(case, bound)
        if first is not None and case.status == record.OK:  # later launches find what it left in __device__ memory
            self._conclude(case, self._compare(first, label), "in its first launch")
        # Hard values take long, and test values and not the ways to run.
        for how, other in bound.also.items() if not self.group.values else ():
            self._verify(case, other, how)
        if self.group.awkward and self.kernel.pointwise and variant.name in self.kernel.entries:
            self._verify_in_place(case, bound)
        if case.status == record.OK and backend.timed:
            self.works[label] = bound

    def _bind(self, variant: Variant, case: Case) -> Bound:
        if reason := variant.backend.missing(self.device.kind):
            raise Unavailable(reason)
        self.at("compile", variant.label)
        start = perf_counter()
        card = cuda.card_of(self.device)
        kernel, notes = tuned.for_variant(self.kernel, variant.name, variant.parameters, self.dtype, card)
        case.parameters = kernel.parameters if variant.name in kernel.entries else {}
        case.notes += notes
        bound = variant.backend.bind(kernel, variant.name, self.dtype, self.operands)
        case.costs = {"bind": perf_counter() - start}
        return bound

    def _verify(self, case: Case, work: Bound, how: str = "") -> None:
        """Judge a variant that is right so far: with each poison run once, look for stray writes, compare."""
        if case.status != record.OK:
            return
        for poison in self.poisons:
            self.device.poison(work.output(), poison)
            work.run()
            if touched := self.device.tampered(self.operands):
                self.device.restore(self.arrays)  # so that the next variant is not blamed for it
                found = Parity(ok=False, n=self.want.size, message=touched)
            else:
                found = self._compare(work.output(), case.label)
            if not found.ok:
                break
        if found.wrong and poison == OTHER_POISON:
            found = msgspec.structs.replace(found, message=f"{found.message} (was every element written?)")
        self._conclude(case, found, how)

    def _verify_in_place(self, case: Case, bound: Bound) -> None:
        """Run with the output in each input's place, as a call of a pointwise kernel may ask for."""
        for name, array in self.operands.inputs.items():
            if case.status != record.OK or bound.again is None:
                return
            if array.dtype != self.operands.output.dtype:
                continue
            try:
                bound.again(replace(self.operands, output=array)).run()
                found = self._compare(array, case.label)
            except Exception:
                case.parity = None
                raise
            finally:
                if self.device.alive():
                    self.device.restore(self.arrays)
            if not found.ok:
                self._conclude(case, found, f"with the output in the memory of {name!r}, which pointwise=True allows")

    def _compare(self, output: Any, label: str) -> Parity:
        """Compare an output with the reference. Bits that were compared before are not compared again."""
        result, budget = as_plain(output), self.budgets[label]
        seen = (self.device.fingerprint(result), result.shape, result.dtype, budget)
        if seen in self.compared:
            return self.compared[seen]
        got = self.device.fetch(result)
        found = parity.compare(got, self.want, self.dtype, budget)
        if self.kernel.pointwise and found.worst:
            given = (f"{name} = {a.reshape(-1)[found.worst_at]}" for name, a in self.arrays.items())
            found.worst += f" for {', '.join(given)}"
        if self.group.values == hard_inputs.EVERY and self.dtype.itemsize == 2 and (found.ok or found.wrong):
            found.curve = parity.error_curve(next(iter(self.arrays.values())), got, self.want, self.dtype)
        self.compared[seen] = found
        return found

    def _conclude(self, case: Case, found: Parity, how: str) -> None:
        """Write a verdict into its row. A WRONG row keeps no time."""
        case.parity = found
        if found.ok:
            return
        case.status, case.times = record.WRONG, {}
        case.reason = found.message + (f" ({how})" if how else "")
        narrow = self.dtype.floating and self.dtype.itemsize < 8
        if case.backend == REFERENCE and narrow and found.wrong:
            case.notes.append("the reference itself, in float32, is WRONG too: is the budget too small?")

    def failed(self, case: Case, error: Exception) -> None:
        super().failed(case, error)
        if isinstance(error, OverrunError):
            case.status, case.parity = record.WRONG, Parity(ok=False, n=self.want.size, message=case.reason)

    def before_timing(self) -> None:
        """Add a copy of as many bytes as the variants read and write, where the device has one."""
        nbytes = next((self.cases[label].nbytes for label in self.works), 0)
        if not nbytes or not self.with_copy:
            return
        self.at("prepare to time", record.COPY)
        case = row(self.group, record.COPY)
        case.nbytes, case.status = nbytes, record.CEILING
        try:
            copy = self.device.copy(nbytes)
        except Exception as error:  # out of memory: a copy needs as much again as the variants
            self.failed(case, error)
            self.cases[record.COPY] = case
            return
        if copy:
            self.cases[record.COPY], self.works[record.COPY] = case, copy

    def clocks(self, label: str, case: Case) -> Mapping[str, Clock]:
        found = timing.clocks(self.device, self.works[label], self.job.modes, case.notes)
        if "graph" in found:
            case.costs["graph build"] = found["graph"].build_seconds
        return found

    def after_samples(self) -> None:
        """Ask for clocks and power, which stand in the copy's row."""
        if not (copy := self.cases.get(record.COPY)):
            return
        self.at("clocks and power", record.COPY)
        try:
            copy.condition = self.device.condition()
        except Exception as error:  # it needs memory of its own
            self.job.survived(self.group, error)
            copy.notes.append(f"clocks and power could not be read: {said(error, self.group)}")

    def judge_again(self, clocks: Clocks) -> None:
        """Look for stray writes of the timed runs, then judge the results that each clock's work left."""
        with self.job.phase(AFTER):
            self.at(AFTER, "")
            try:
                if touched := self.device.tampered(self.operands):
                    self.device.restore(self.arrays)
            except Exception as error:
                self.job.survived(self.group, error)
                raise
            for label in self.works:
                case = self.cases[label]
                if case.status != record.OK:  # its row has a reason already, and it may be the variant that wrote
                    continue
                if touched:  # the variant at fault is unknown: none of them keeps its times
                    case.status, case.times = record.ERROR, {}
                    what = f"one of those timed here {touched.rstrip('?')}"
                    case.reason = f"no time holds: {what}; time them one by one, by --only"
                    continue
                self.at(AFTER, label)
                for work in {id(clock.work): clock.work for clock in clocks[label].values()}.values():
                    self.guarded(case, lambda: self._verify(case, work))  # noqa: B023 (called at once)
