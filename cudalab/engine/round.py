"""One group at work: every variant is run and checked, then all are timed in turns, then checked again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from cudalab.base.errors import OverrunError, Unavailable
from cudalab.checks import hard_inputs
from cudalab.checks.parity import compare, error_curve
from cudalab.device import OTHER_POISON, POISON_BYTE, cuda, interop
from cudalab.device.operands import Bound, Operands
from cudalab.engine.messages import Glimpse, Step
from cudalab.engine.plan import Group, Variant
from cudalab.engine.rows import row, said
from cudalab.results import record
from cudalab.results.record import Case, Parity
from cudalab.spec import tuned
from cudalab.spec.kernel import Arrays, Budget
from cudalab.timing import rounds
from cudalab.timing.clock import Clock

if TYPE_CHECKING:
    from cudalab.engine.job import Job

REFERENCE = "numpy"  # the backend that runs the spec's reference


class Round:
    """One group at work."""

    def __init__(self, job: Job, group: Group, arrays: Arrays, want: np.ndarray, operands: Operands) -> None:
        self.job, self.group, self.arrays, self.want, self.operands = job, group, arrays, want, operands
        self.bounds: dict[str, Bound] = {}  # what is right, and worth a time
        self.cases: dict[str, Case] = {}
        self.budgets: dict[str, Budget] = {}  # by label
        self.judged: dict[Hashable, Parity] = {}  # by the output's fingerprint and the budget
        # Where the first poison may be what was wanted, an element that is never written would look right.
        hidden = not group.dtype.floating or (want.dtype.kind == "f" and bool(np.isnan(want.max(initial=-np.inf))))
        self.poisons = (POISON_BYTE, OTHER_POISON) if hidden else (POISON_BYTE,)
        self.glimpses: dict[str, Glimpse] = {}

    def rows(self, variants: list[Variant], with_copy: bool) -> list[Case]:
        """Rows of `variants`, and of a copy where that is timed."""
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
            self._untouched()
            for label in self.bounds:
                self._at("check after timing", label)
                for work in {id(c.work): c.work for c in clocks.get(label, {}).values()}.values():
                    self._verify(self.cases[label], work)
        return list(self.cases.values())

    def _untouched(self) -> None:
        """What has written where no kernel may while all were timed is not known: none of them keeps its times."""
        self._at("check after timing", "")
        try:
            if touched := self.job.device.tampered(self.operands):
                self.job.device.restore(self.arrays)
        except Exception as error:
            self.job.survived(self.group.kernel, error)
            raise
        if not touched:
            return
        for case in (self.cases[label] for label in self.bounds):
            if case.status == record.OK:  # else it has a reason of its own, and may be the one
                case.status, case.times = record.ERROR, {}
                what = f"one of those timed here {touched.rstrip('?')}"
                case.reason = f"no time holds: {what}; time them one by one, by --only"
        self.bounds = {}

    def _at(self, phase: str, label: str) -> None:
        self.job.at(Step(str(self.group), phase, label))

    def _checked(self, case: Case) -> None:
        """Keep the row of a variant that has been checked, and let it be seen."""
        self.cases[case.label] = case
        self.glimpses[case.label] = Glimpse(case.status, case.parity.max_ulp if case.parity else 0.0)
        self.job.glimpse(self.glimpses)

    def _failed(self, case: Case, error: Exception) -> None:
        """An error costs this row and no other, unless it took the device with it."""
        self.job.survived(self.group.kernel, error)
        case.status, case.reason, case.times = record.ERROR, said(error, self.group.kernel), {}
        if isinstance(error, OverrunError):
            case.status, case.parity = record.WRONG, Parity(ok=False, n=self.want.size, message=case.reason)

    def _first_run(self, variant: Variant) -> Case:
        """The variant's row after its first run: right, WRONG, skipped or an error."""
        case = row(self.group, variant.label)
        case.nbytes = sum(a.nbytes for a in self.operands.inputs.values()) + self.operands.output.nbytes
        try:
            if reason := variant.backend.missing(self.job.device.kind):
                raise Unavailable(reason)
            self._at("compile", variant.label)
            start = perf_counter()
            card = cuda.card_of(self.job.device)
            kernel, notes = tuned.for_variant(
                self.group.kernel, variant.name, variant.parameters, self.group.dtype, card
            )
            case.parameters = kernel.parameters if variant.name in kernel.entries else {}
            case.notes += notes
            bound = variant.backend.bind(kernel, variant.name, self.group.dtype, self.operands)
            case.costs = {"bind": perf_counter() - start}
            self._at("first run", variant.label)
            if variant.backend.timed:
                case.costs["first run"] = self.job.device.warm_up(bound)
            else:  # the CPU's, which ends with the call
                start = perf_counter()
                bound.run()
                case.costs["first run"] = perf_counter() - start
                first = self.job.device.fetch(interop.as_plain(bound.output()))
        except Unavailable as error:
            case.status, case.reason = record.SKIPPED, str(error)
        except Exception as error:  # any library's
            self._failed(case, error)
        else:
            case.composed = variant.backend.budget == "composed"
            self.budgets[variant.label] = self.group.kernel.budget(self.group.dtype, variant.backend.budget)
            self._at("check", variant.label)
            self._verify(case, bound)
            if not variant.backend.timed:  # later ones find what it left in __device__ memory
                self._check(case, lambda: self._judged(first, self.budgets[case.label]), "in its first launch")
            for how, other in bound.also.items() if not self.group.values else ():  # those are about values, and many
                self._verify(case, other, how)
            if self.group.awkward and self.group.kernel.pointwise and variant.name in self.group.kernel.entries:
                self._verify_in_place(case, bound)
            if case.status == record.OK and variant.backend.timed:
                self.bounds[variant.label] = bound
        return case

    def _verify(self, case: Case, work: Bound, how: str = "") -> None:
        """Poison the output, run once, compare. What is wrong keeps no time."""
        self._check(case, lambda: self._compare(work, self.budgets[case.label]), how)

    def _check(self, case: Case, compared: Callable[[], Parity], how: str) -> None:
        if case.status != record.OK:
            return
        try:
            parity = compared()
        except Exception as error:
            self._failed(case, error)
            return
        self._judge(case, parity, how)

    def _judge(self, case: Case, parity: Parity, how: str) -> None:
        if not parity.ok:
            case.status, case.reason, case.times = record.WRONG, parity.message, {}
            case.reason += f" ({how})" if how else ""
            narrow = self.group.dtype.floating and self.group.dtype.itemsize < 8
            if case.backend == REFERENCE and narrow and parity.wrong:
                case.notes.append("the reference itself, in float32, is WRONG too: is the budget too small?")
        case.parity = parity

    def _verify_in_place(self, case: Case, bound: Bound) -> None:
        """Run with the output in each input's place, as a call of a pointwise kernel may ask for."""
        for name, array in self.operands.inputs.items():
            if case.status != record.OK or bound.again is None:
                return
            if array.dtype != self.operands.output.dtype:
                continue
            try:
                bound.again(replace(self.operands, output=array)).run()
                parity = self._judged(array, self.budgets[case.label])
            except Exception as error:
                case.parity = None
                self._failed(case, error)
                return
            finally:
                if self.job.device.alive():
                    self.job.device.restore(self.arrays)
            if not parity.ok:
                self._judge(case, parity, f"with the output in the place of {name!r}, which pointwise=True allows")

    def _compare(self, work: Bound, budget: Budget) -> Parity:
        for poison in self.poisons:
            parity = self._compared(work, budget, poison)
            if not parity.ok:
                break
        if not parity.ok and parity.wrong and poison == OTHER_POISON:
            parity = msgspec.structs.replace(parity, message=f"{parity.message} (was every element written?)")
        return parity

    def _compared(self, work: Bound, budget: Budget, poison: int) -> Parity:
        device = self.job.device
        device.poison(work.output(), poison)
        work.run()
        if touched := device.tampered(self.operands):
            device.restore(self.arrays)  # the next variant is not to be blamed for it
            return Parity(ok=False, n=self.want.size, message=touched)
        return self._judged(work.output(), budget)

    def _judged(self, output: Any, budget: Budget) -> Parity:
        device, dtype = self.job.device, self.group.dtype
        result = interop.as_plain(output)
        seen = (device.fingerprint(result), result.shape, result.dtype, budget)
        if seen in self.judged:
            return self.judged[seen]  # the same bits have been compared, element by element
        got = device.fetch(result)
        parity = compare(got, self.want, dtype, budget)
        if self.group.kernel.pointwise and parity.worst:
            given = (f"{name} = {a.reshape(-1)[parity.worst_at]}" for name, a in self.arrays.items())
            parity.worst += f" for {', '.join(given)}"
        if self.group.values == hard_inputs.EVERY and dtype.itemsize == 2 and (parity.ok or parity.wrong):
            parity.curve = error_curve(next(iter(self.arrays.values())), got, self.want, dtype)
        self.judged[seen] = parity
        return parity

    def _clocks(self, with_copy: bool) -> dict[str, dict[str, Clock]]:
        """Clocks of everything that is to be timed, and of a copy of as many bytes."""
        bounds = dict(self.bounds)
        if with_copy and (copy := self._copy()):
            bounds[record.COPY] = copy
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
                kind: self.job.watched(
                    clock, Step(str(self.group), f"timing, {kind}", label), self.group.kernel,
                    None if i else self.glimpses,
                )
                for i, (kind, clock) in enumerate(found.items())
            }  # fmt: skip
        return clocks

    def _copy(self) -> Bound | None:
        """A copy of as many bytes as the variants read and write, and its row."""
        nbytes = next((self.cases[label].nbytes for label in self.bounds), 0)
        if not nbytes:
            return None
        self._at("prepare to time", record.COPY)
        case = row(self.group, record.COPY)
        case.nbytes, case.status = nbytes, record.CEILING
        try:
            copy = self.job.device.copy(nbytes)
        except Exception as error:  # out of memory: it needs as much again as the variants
            self._failed(case, error)
            copy = None
        if copy or case.status == record.ERROR:
            self.cases[record.COPY] = case
        return copy

    def _time(self, clocks: dict[str, dict[str, Clock]]) -> None:
        every = rounds.take(clocks, self.job.seed, self.job.budget, self.job.order)
        if copy := self.cases.get(record.COPY):
            self._at("clocks and power", record.COPY)
            try:
                copy.condition = self.job.device.condition()
            except Exception as error:  # it needs memory of its own
                self.job.survived(self.group.kernel, error)
                copy.notes.append(f"clocks and power are not known: {said(error, self.group.kernel)}")
        for label, taken in every.items():
            case = self.cases[label]
            if taken.error:
                case.status, case.reason = record.ERROR, taken.error
            else:
                case.times = taken.rounds
                case.costs["timing"] = taken.seconds
