"""The verdicts of a kernel's group: is a variant right, each way that it runs, and why is it not?

The order of a verdict: fill the output, run, look for writes where no kernel may write, compare with the reference;
again with other contents of the output. A variant whose result is wrong has no time.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property
from math import inf
from typing import Any

from cudalab.backends import numpy as reference
from cudalab.base.errors import CompileError, CudalabError, OverrunError, RaceError, Unavailable
from cudalab.base.text import without_questions
from cudalab.checks import gradient, inputs, other_scalars, parity
from cudalab.checks.expected import results
from cudalab.checks.other_scalars import Others
from cudalab.device import cuda
from cudalab.device.arrays import as_plain, to_torch, torch_missing
from cudalab.device.guard import Content, fills
from cudalab.device.operands import Bound, Operands
from cudalab.engine.cause import RACE, Causes, Fault
from cudalab.engine.groups import MANY, SAME, Group, Variant
from cudalab.engine.inputs import Inputs
from cudalab.engine.job import Job
from cudalab.engine.judge import Judge
from cudalab.engine.round import Round
from cudalab.results import record
from cudalab.results.record import Case, Parity
from cudalab.spec import tuned
from cudalab.spec.kernel import Kernel

REFERENCE = "numpy"  # the backend that runs the spec's reference
OTHER_VALUES = "with other values in the same inputs"
KEPT = ": are results kept from an earlier call?"
WRITTEN_IN = ": this is the result for {}; is that value written into the code?"
UNSET = (
    ", where a local variable without a value is 0, and volatile values that no fence follows are seen late: is one "
    "read before it is set?"
)
TAKES_NO_OTHER = ": if it takes no other value, say others=() in its Scalar"
ALIGNED = " (the check moves arrays off their alignment: does the kernel need `aligned={}` in its spec?)"
CHOSEN = (
    " (the check chose this size for its many blocks: is an index or an array too small for them, or is a loop missing "
    "where the grid no longer grows? If the kernel takes no such size, let its launch function raise an error)"
)
ONE_VALUE = (
    " (the inputs are one value throughout, so that an output counts all of them: does a counter overflow? If the "
    "kernel takes no such size, let its launch function raise an error)"
)
OTHER_LENGTH = (
    " (the check chose {}: is the spec's value written into the code? If the kernel takes no other, say others=() in "
    "its Scalar)"
)
GIVEN_LENGTH = " (--size gives {}: is the spec's value written into the code?)"
TOO_SMALL = "the reference itself, in float32, is WRONG: is the budget too small?"
TOO_SMALL_NEAR_0 = (
    "the reference itself, in float32, is WRONG near 0: if such an error is acceptable, give the budget an `atol` just "
    "above that largest error, as in Budget(4, atol=1e-7)"
)
TOO_SMALL_WHERE_TERMS_CANCEL = (
    "the reference itself, in float32, is WRONG by many ULP, but hardly off as a whole: where the terms of a sum "
    "cancel, let the budget's `atol` grow with them, as in Budget(4, lambda x: 2**-20 * abs(x).sum())"
)
OVERFLOWS = (
    "the reference itself, in float32, gives inf or NaN where a number is expected: an intermediate result overflows, "
    "which no budget allows; reorder the formula (divide before you multiply), or leave out pointwise=True, which "
    "tries every magnitude"
)


class WrongAnswer(CudalabError):
    """A timed run gave a wrong result; its row says so."""


class Verdicts(Round[Variant, Bound]):
    """A round that judges variants of one group, on arrays that are placed on the device."""

    def __init__(self, job: Job, group: Group, contents: Inputs, operands: Operands) -> None:
        super().__init__(job, group)
        self.group: Group = group
        self.device, self.kernel, self.dtype = job.device, group.kernel, group.dtype
        self.contents, self.operands = contents, operands
        self.arrays = contents.arrays[0]
        self.in_turn = contents.in_turn()
        self.judge = Judge(job, group, contents, self.in_turn.rng)
        self.raced = job.raced.setdefault(group.kernel.file, {})  # by label, a race that was found
        self.fills = fills(self.dtype, job.seed)  # of the output before a run; the first one after `place`

    def chosen(self, variant: Variant, kernel: Kernel) -> tuple[Kernel, list[str]]:
        """The kernel that a variant launches, and notes on its parameters. An old one has those of the new one."""
        card = cuda.card_of(self.device)
        found, notes = tuned.for_variant(kernel, variant.name, variant.parameters, self.dtype, card)
        return (found.with_cu(self.group.old) if variant.old else found), notes

    @cached_property
    def _others(self) -> tuple[Others, Judge]:
        """Other values of the scalars, and who compares results with the reference for them."""
        others = other_scalars.chosen(self.kernel, self.dtype, self.arrays, self.job.seed)
        contents = self.contents.adapt(others.kernel, str(others))
        return others, Judge(self.job, replace(self.group, kernel=others.kernel), contents, self.in_turn.rng)

    def verify(
        self, case: Case, work: Bound, how: str = "", again: bool = True, usual: Bound | None = None
    ) -> None:  # fmt: skip
        """Judge a variant that is right so far, with each content of the output; not `again`: without the first one.

        `usual`: the variant, where `work` is another of its ways.
        """
        if case.status != record.OK:
            return
        first, *others = self.fills
        if how or work.output() is not self.operands.output:  # one of its ways, or a library's own array
            chosen = others[-1:]
        else:
            slow = self.group.values and self.device.kind == "cpu"  # many values, executed by the CPU
            chosen = [first, *(others[:2] if slow else others)][not again :]
        for content in chosen:
            found = self._run_and_compare(case, work, content)
            if not found.ok:
                break
        how += UNSET if how.endswith(RACE) else ""  # the order of the threads is that of the usual run
        self.conclude(case, found, how)
        if not found.ok and work.output() is self.operands.output:
            self._explain(case, work, found, how, usual or work)

    def _explain(self, case: Case, work: Bound, found: Parity, how: str, usual: Bound) -> None:
        """Add to the reason what more runs show to be the cause."""
        causes = Causes(
            self.device, self.kernel, self.fills, self.make_new,
            lambda again: self._compared(case, again).ok, self.mend, self.raced,
        )  # fmt: skip
        try:
            ways = {**usual.also, **(usual.suspects() if case.label not in self.raced else {})}
            cause, certain = causes.find(case.label, work, found.message if found.wrong else "", ways)
        except Exception:  # the verdict stands
            if not self.device.alive():
                raise
            return
        self.conclude(case, parity.because(found, cause), how)
        if certain:
            drop_guesses(case)

    def _run_and_compare(
        self, case: Case, work: Bound, content: Content, contents: int = 0, judge: Judge | None = None
    ) -> Parity:
        """Fill the output, run once, look for stray writes, compare with the reference."""
        self.make_new(work, content, contents)
        return self._compared(case, work, contents, judge)

    def _compared(self, case: Case, work: Bound, contents: int = 0, judge: Judge | None = None) -> Parity:
        """Run once, look for stray writes, compare with the reference."""
        work.run()
        if touched := self.device.tampered(self.operands) or work.altered():
            self.device.restore(self.arrays)  # so that the next variant is not blamed for it
            return Parity(ok=False, n=self.operands.output.size, message=touched)
        return (judge or self.judge).compare(work.output(), case.label, contents)

    def make_new(self, work: Bound, content: Content, contents: int = 0) -> None:
        """Make what a run writes as it has to be before: poisoned, filled, or with these contents of the inputs."""
        self.device.poison(work.output(), content)
        if self.kernel.in_place:
            self.device.load(contents, names=self.kernel.in_place)

    def verify_other_values(self, case: Case, bound: Bound) -> None:
        """Judge a variant that is right so far on other values in the same memory."""
        if case.status != record.OK or len(self.contents.arrays) < 2:
            return
        self.device.load(1)
        try:
            found = self._run_and_compare(case, bound, self.fills[-1], 1)
        finally:
            if self.device.alive():
                self.device.load(0)
        if not found.ok:
            most = 2 * found.wrong > found.n  # else it misses its budget at a few values
            self.conclude(case, found, OTHER_VALUES + (KEPT if most else ""))

    @cached_property
    def _gradient(self) -> tuple[str, list[str]]:
        """What is wrong with the `backward` of the spec, and what to note of it. It gets tensors on the CPU."""
        if not gradient.due(self.kernel, self.dtype):
            return "", []
        if why := torch_missing("cpu"):
            return "", [f"{gradient.NOT}{why}"]
        return gradient.check(self.kernel, self.dtype, self.job.seed, to_torch, as_plain)

    def verify_gradient(self, case: Case) -> None:
        """Judge the `backward` of the spec, which belongs to each of its entries, if the entry is right so far."""
        if case.status != record.OK:
            return
        fault, notes = self._gradient
        case.notes += notes
        if fault:
            self.conclude(case, Parity(ok=False, n=0, message=fault), "")

    def verify_other_scalars(self, case: Case, variant: Variant, bound: Bound) -> None:
        """Judge a variant that is right so far with other values of the kernel's scalars."""
        if case.status != record.OK or getattr(variant.backend, "compiles_scalars", False):
            return
        others, judge = self._others
        if not self.job.modes and len(self.contents.arrays) > 1:  # once, at the first size
            case.notes += others.notes
        if not others.values:
            return
        self.at("check with other scalars", case.label)
        kernel, _ = self.chosen(variant, others.kernel)
        judge.allow(case.label, variant.backend.budget, getattr(variant.backend, "flushes", ""))
        how = f"with {others}"
        try:
            operands = replace(self.operands, scalars=others.kernel.scalars_of(self.arrays))
            work = variant.backend.bind(kernel, variant.name, self.dtype, operands)
            if work.on is None:  # a library's result, which is there from the first run on
                work.run()
            found = self._run_and_compare(case, work, self.fills[-1], judge=judge)
        except Exception as error:
            if reason := judge.undefined():
                case.notes.append(f"not judged {how}: the reference fails: {reason}")
                return
            if isinstance(error, CudalabError) and not isinstance(error, Unavailable):
                raise type(error)(f"{error} ({how})") from error
            raise
        finally:
            if kernel.constants and bound.again and self.device.alive():
                bound.again(self.operands)  # sets the constants that follow from the spec's values again
        if found.ok:
            return
        used = other_scalars.explained(others, lambda one: judge.right_for(one, work.output(), case.label))
        self.conclude(case, found, how + (WRITTEN_IN.format(used) if used else TAKES_NO_OTHER))

    def verify_in_place(self, case: Case, bound: Bound) -> None:
        """Run with the output in each input's place, as a call of a pointwise kernel may ask for."""
        for name, array in self.operands.inputs.items():
            if case.status != record.OK or bound.again is None:
                return
            if array.dtype != self.operands.output.dtype:
                continue
            try:
                bound.again(replace(self.operands, output=array)).run()
                found = self.judge.compare(array, case.label)
            except Exception:
                case.parity = None
                raise
            finally:
                if self.device.alive():
                    self.device.restore(self.arrays)
            if not found.ok:
                self.conclude(case, found, f"in place, with {name!r} as its output too, which pointwise=True allows")

    def judge_timed(self, label: str, contents: int, output: Any, digest: int, clock: object) -> None:
        """Judge what a timed run left. Raises WrongAnswer, and the row says it."""
        found = self.judge.of_timed(output, label, contents, digest, clock)
        if found and not found.ok:
            self.conclude(self.cases[label], found, "in a timed run")
            raise WrongAnswer(found.message)

    def conclude(self, case: Case, found: Parity, how: str) -> None:
        """Write a verdict into its row. A WRONG row keeps no time."""
        case.parity = found
        if found.ok:
            return
        case.lose_times()
        case.status = record.WRONG
        case.reason = found.message + (f" ({how})" if how else "") + self._why_here(case)
        if case.backend == REFERENCE and found.wrong:
            case.notes += [note for note in self._reference_wrong(found) if note not in case.notes]

    def _reference_wrong(self, found: Parity) -> list[str]:
        """Why the reference itself may be WRONG in the dtype in which the numpy row computes."""
        wanted = results(self.kernel, self.dtype, self.contents.want(0))
        if fractions := inputs.fractional(self.kernel, self.dtype, wanted):
            return fractions
        if reference.computes_in((a.dtype for a in self.arrays.values()), self.dtype) != "float32":
            return []
        small = TOO_SMALL_WHERE_TERMS_CANCEL if found.cancels else TOO_SMALL
        small = TOO_SMALL_NEAR_0 if parity.NEAR_0 in found.message else small
        return [small if found.largest < inf else OVERFLOWS]

    def _why_here(self, case: Case) -> str:
        """What a fault at this size may come from; "" if the variant failed at a usual one."""
        if self.group.values in (MANY, SAME):
            known = (self.kernel.file, case.label) in self.job.wrong
            return "" if known else ONE_VALUE if self.group.values == SAME else CHOSEN
        if self.group.scalars:
            chosen = ", ".join(f"{name}={n}" for name, n in self.group.scalars)
            said = OTHER_LENGTH if self.group.awkward else GIVEN_LENGTH
            return "" if (self.kernel.file, case.label) in self.job.wrong else said.format(chosen)
        self.job.wrong.add((self.kernel.file, case.label))
        return ""

    def failed(self, case: Case, error: Exception) -> None:
        super().failed(case, error)
        if self.group.offsets and "misaligned address" in case.reason:
            case.reason += _aligned(case.reason)
        if not isinstance(error, CompileError):
            case.reason += self._why_here(case)
        if isinstance(error, RaceError):
            self.raced[case.label] = Fault(str(error), outside=False)
        if isinstance(error, OverrunError | RaceError):
            case.status, case.parity = record.WRONG, Parity(ok=False, n=self.operands.output.size, message=case.reason)

    def mend(self) -> None:
        if self.device.tampered(self.operands):
            self.device.restore(self.arrays)  # so that the next variant is not blamed for it


def _aligned(reason: str) -> str:
    """The hint for a misaligned address: the CPU executor says how many bytes the type needs, a GPU does not."""
    needs = re.search(r"needs an alignment of (\d+) bytes", reason)
    return ALIGNED.format(needs[1] if needs else 16)


def drop_guesses(case: Case) -> None:
    """Leave out of a WRONG row's reason what else its cause could be, where the line of the fault is known."""
    case.reason = without_questions(case.reason.removesuffix(CHOSEN))
    case.parity = case.parity and parity.without_guess(case.parity)
