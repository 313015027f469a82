"""A kernel's group in the worker: make inputs and reference, then one round over its variants.

The order of a verdict: fill the output, run, look for writes where no kernel may write, compare with the reference;
again with other contents of the output. A variant whose result is wrong has no time, and results are judged again after
timing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from math import inf
from time import perf_counter
from typing import Any

import numpy as np

from cudalab import backends, timing
from cudalab.backends import numpy as reference
from cudalab.base import beside, genuine
from cudalab.base.errors import CompileError, CudalabError, InputError, OverrunError, RaceError, Unavailable
from cudalab.base.packages import DoesNotWork
from cudalab.base.text import without_questions
from cudalab.checks import characters, gradient, inputs, many_blocks, other_scalars, parity, vacuous
from cudalab.checks.expected import Expected, results
from cudalab.checks.other_scalars import Others
from cudalab.device import cuda
from cudalab.device.arrays import as_plain, overlap, to_torch, torch_missing
from cudalab.device.guard import Content, fills
from cudalab.device.operands import Bound, Operands, pieces
from cudalab.device.protocol import Device
from cudalab.engine import against, huge, peers
from cudalab.engine.cause import RACE, Causes
from cudalab.engine.groups import HUGE, MANY, Group, Variant
from cudalab.engine.inputs import Inputs
from cudalab.engine.job import Job
from cudalab.engine.judge import Judge
from cudalab.engine.messages import Step
from cudalab.engine.round import Round
from cudalab.engine.rows import failed, not_compiled, refused, row, said, skipped
from cudalab.results import record
from cudalab.results.record import Case, Parity
from cudalab.spec import tuned
from cudalab.spec.inputs import NEGATIVE
from cudalab.spec.kernel import Kernel
from cudalab.spec.work import amount, doubts
from cudalab.timing.ceiling import ceiling
from cudalab.timing.clock import Clock
from cudalab.timing.proof import Contents, Proof

REFERENCE = "numpy"  # the backend that runs the spec's reference
OTHER_VALUES = "with other values in the same inputs"
KEPT = ": are results kept from an earlier call?"
WRITTEN_IN = ": this is the result for {}; is that value written into the code?"
UNSET = ", where a local variable without a value is 0: is one read before it is set?"
NO_EDGES = "no awkward shape was tried: edges is empty; give some, such as edges=((1,), (31,))"
TAKES_NO_OTHER = ": if it takes no other value, say others=() in its Scalar"
ALIGNED = " (the check moves arrays off their alignment: does the kernel need `aligned={}` in its spec?)"
CHOSEN = (
    " (the check chose this size for its many blocks: is an index or an array too small for them, or is a loop missing "
    "where the grid no longer grows? If the kernel takes no such size, let its launch function raise an error)"
)
OTHER_LENGTH = (
    " (the check chose {}: is the spec's value written into the code? If the kernel takes no other, say others=() in "
    "its Scalar)"
)
TOO_SMALL = "the reference itself, in float32, is WRONG: is the budget too small?"
TOO_SMALL_NEAR_0 = (
    "the reference itself, in float32, is WRONG near 0: if such an error is acceptable, give the budget an `atol` just "
    "above that largest error, as in Budget(4, atol=1e-7)"
)
OVERFLOWS = (
    "the reference itself, in float32, gives inf or NaN where a number is expected: an intermediate result overflows, "
    "which no budget allows; reorder the formula (divide before you multiply), or leave out pointwise=True, which "
    "tries every magnitude"
)


def cases(job: Job, group: Group, omit: Collection[str] = ()) -> list[Case]:
    """Rows of every selected variant of a group, without those whose label is in `omit`.

    Where the inputs come in parts, each variant runs on all of them. Raises ContextLost where the device is no longer
    usable.
    """
    variants = [v for v in job.selection.variants(group, job.device.kind) if v.label not in omit]
    if why := dict(group.why):
        return [skipped(group, v.label, why[v.name]) for v in variants if v.name in why]
    if group.values == HUGE:
        return huge.rows(job, group, variants)
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
            if group.values == MANY and (why := many_blocks.too_slow(group.kernel, group.dtype, group.shape)):
                return [skipped(group, v.label, why) for v in variants]
            arrays = group.arrays(job.seed, part)
            want = None
            if not (job.process and job.known):  # else the outputs are known, and the reference may not be needed
                job.at(Step(str(group), "reference"))
                want = Expected(group.kernel, arrays)
                if not group.values and not group.awkward:
                    vacuous.refuse(group.kernel, group.dtype, arrays, job.seed)
            job.at(Step(str(group), "placing the arrays"))
            operands = replace(
                job.device.place(group.kernel, group.dtype, arrays, group.offsets),
                seed=job.seed,
                limit=many_blocks.LIMIT if group.values == MANY else inf,
            )
            contents = Inputs(job, group, arrays, want, operands)
    except Exception as error:  # the spec's own, or out of memory: no variant of this group can run
        job.survived(group, error)
        reason = f"cannot make inputs and reference: {said(error, group)}"
        return [failed(group, v.label, reason) for v in variants]
    return _KernelRound(job, group, contents, operands, with_copy).rows(variants)


def _of_library(variant: Variant) -> bool:
    return variant.backend_name not in record.ENTRIES


def _both(before: Case, found: list[Case]) -> Case:
    """A variant's row of all parts so far: `found` has the row of the next part, unless it was left out."""
    part = next((case for case in found if case.label == before.label), None)
    if part is None or part.parity is None or before.parity is None:
        return part or before
    part.parity = parity.joined([before.parity, part.parity])
    part.status, part.reason = (record.OK, "") if part.parity.ok else (record.WRONG, part.parity.message)
    return part


class WrongAnswer(CudalabError):
    """A timed run gave a wrong result; its row says so."""


class _KernelRound(Round[Variant, Bound]):
    """The round of one group, on arrays that are placed on the device."""

    checking = "compile and check"

    def __init__(self, job: Job, group: Group, contents: Inputs, operands: Operands, with_copy: bool) -> None:
        super().__init__(job, group)
        self.group: Group = group
        self.device, self.kernel, self.dtype = job.device, group.kernel, group.dtype
        self.contents, self.operands, self.with_copy = contents, operands, with_copy
        self.arrays = contents.arrays[0]
        self.in_turn = contents.in_turn()
        self.judge = Judge(job, group, contents, self.in_turn.rng)
        self._tells = ""  # the label of the row that has the notes about the spec
        self._threads = beside.Watch(lambda label: label.startswith("rival:"))
        self._held_down: dict[str, dict[str, None]] = {}  # by label, reasons
        self._raced = job.raced.setdefault(group.kernel.file, {})  # by label, a race that was found
        self.fills = fills(self.dtype, job.seed)  # of the output before a run; the first one after `place`

    def rows(self, variants: Sequence[Variant]) -> list[Case]:
        """Implements `Round.rows`. One row has the notes about the spec: the reference's, else the first one."""
        first = variants[0].label if variants else ""
        self._tells = next((v.label for v in variants if v.backend_name == REFERENCE), first)
        return super().rows(variants if self.job.modes else sorted(variants, key=_of_library))

    def needed(self, variant: Variant) -> bool:
        """In a check, libraries have no rows beside a `.cu` that does not compile: their compilers take seconds."""
        return bool(self.job.modes) or not (_of_library(variant) and not_compiled(self.cases.values()))

    def prepare(self, variant: Variant, case: Case) -> None:
        """Bind a variant, run it once, and judge every way to run it."""
        label, backend = variant.label, variant.backend
        if self.group.values != MANY:  # the spec says what its own sizes move
            written = sum(piece.nbytes for piece in pieces(self.operands.output))
            work = amount(self.kernel, self.arrays, written)
            case.nbytes, case.written, case.flops = work.nbytes, work.written, work.flops
            case.notes += doubts(work, written) if label == self._tells else []
        if reason := backends.missing(backend, self.device.kind):
            raise self._no_row(variant, reason)
        try:
            bound = self._bind(variant, case)
            case.allocates = bound.allocates
            self._first_run(variant, bound, case)
        except Exception as error:
            self.job.survived(self.group, error)
            if (broken := peers.fault(variant, self.kernel, self.operands, error)) is None:
                raise
            raise self._no_row(variant, broken) from error
        first: Parity | None = None  # of a first launch
        first_size = not self.job.modes and len(self.contents.arrays) > 1
        if label == self._tells and self.kernel.pointwise and first_size:
            case.notes += [f"no hard values were tried: {why}" for why in inputs.no_place(self.kernel, self.arrays)]
        if label == self._tells and first_size and not self.group.values:
            wanted = results(self.kernel, self.dtype, self.contents.want(0))
            case.notes += inputs.undefined(self.arrays, wanted)
            case.notes += vacuous.zeros_pass(self.kernel, self.dtype, wanted) or vacuous.idle(
                self.kernel, self.dtype, self.arrays, self.contents.arrays[1], wanted
            )
            case.notes += [NO_EDGES] if not self.kernel.edges else []
            case.notes += [] if self.kernel.pointwise else characters.not_tried(self.kernel)
        case.composed = backend.budget == "composed"
        self.judge.allow(label, backend.budget)
        for name, array in self.operands.inputs.items() if bound.on is None else ():
            if any(overlap(piece, array) for piece in pieces(bound.output())):
                raise InputError(
                    f"its result shares memory with its input {name!r}; return a copy, such as {name}.clone()"
                )

        self.at("check", label)
        if not backend.timed:
            first = self.judge.compare(bound.output(), label)
        self._verify(case, bound, again=first is None or not first.ok)
        if first is not None and case.status == record.OK:  # later launches find what it left in __device__ memory
            self._conclude(case, first, "in its first launch")
        if not (self.job.modes and backend.timed):  # timed runs meet other values, and each is judged
            self._verify_other_values(case, bound)
        for how, other in self._ways(bound):
            if RACE in how and label in self._raced:
                continue
            self._verify(case, other, how, ways=bound.also)
        if self.kernel.scalars and not (self.group.values or self.group.offsets):
            self._verify_other_scalars(case, variant, bound)
        if first_size and not self.group.values and variant.name in self.kernel.entries:
            self._verify_gradient(case)
        if self.group.awkward and self.kernel.pointwise and self.kernel.simple and variant.name in self.kernel.entries:
            self._verify_in_place(case, bound)
        case.notes += bound.remarks() + (self.judge.doubts(label) if case.status == record.OK else [])
        if case.status == record.WRONG and bound.undefined():  # a remark names its line
            _drop_guesses(case)
        self._threads.turn(label, timed=False)
        if case.status == record.OK and backend.timed:
            self.works[label] = bound

    def _ways(self, bound: Bound) -> list[tuple[str, Bound]]:
        """The other ways to run a variant in this group.

        Hard values take long, and test values and not the ways to run. Negative ones show a maximum that starts at a
        local variable without a value, which is 0 where races are looked for.
        """
        if self.group.values and self.group.values != NEGATIVE:
            return []
        found = list(bound.also.items())
        return [way for way in found if RACE in way[0]][:1] if self.group.values else found

    def _no_row(self, variant: Variant, reason: str) -> CudalabError:
        """The error for a variant whose library is missing, or does not work though the user names it."""
        due = isinstance(reason, DoesNotWork) and variant.backend_name in self.job.named
        return CudalabError(reason) if due else Unavailable(reason)

    def _first_run(self, variant: Variant, bound: Bound, case: Case) -> None:
        self.at("first run", variant.label)
        if variant.backend.timed:
            case.costs["first run"] = timing.warm_up(self.device, bound)
            return
        self._make_new(bound, self.fills[0])  # the CPU's, which ends with the call
        start = perf_counter()
        bound.run()
        case.costs["first run"] = perf_counter() - start

    def _bind(self, variant: Variant, case: Case) -> Bound:
        self.at("compile", variant.label)
        start = perf_counter()
        kernel, notes = self._chosen(variant, self.kernel)
        case.parameters = kernel.parameters if variant.name in kernel.entries else {}
        case.notes += notes + getattr(variant.backend, "remarks", lambda kernel: [])(kernel)
        if variant.old:
            against.fits(kernel, self.kernel, variant.name, self.operands.named(kernel))
        bound = variant.backend.bind(kernel, variant.name, self.dtype, self.operands)
        case.costs = {"bind": perf_counter() - start}
        return bound

    def _chosen(self, variant: Variant, kernel: Kernel) -> tuple[Kernel, list[str]]:
        """The kernel that a variant launches, and notes on its parameters. An old one has those of the new one."""
        card = cuda.card_of(self.device)
        found, notes = tuned.for_variant(kernel, variant.name, variant.parameters, self.dtype, card)
        return (found.with_cu(self.group.old) if variant.old else found), notes

    @cached_property
    def _others(self) -> tuple[Others, Judge]:
        """Other values of the scalars, and who compares results with the reference for them."""
        others = other_scalars.chosen(self.kernel, self.dtype, self.arrays, self.job.seed)
        contents = self.contents.of(others.kernel, str(others))
        return others, Judge(self.job, replace(self.group, kernel=others.kernel), contents, self.in_turn.rng)

    def _verify(
        self, case: Case, work: Bound, how: str = "", again: bool = True, ways: Mapping[str, Bound] | None = None
    ) -> None:  # fmt: skip
        """Judge a variant that is right so far, with each content of the output; not `again`: without the first one.

        `ways`: others to run it, if not its own.
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
        self._conclude(case, found, how)
        if found.wrong and work.output() is self.operands.output:
            self._explain(case, work, found, how, ways or work.also)

    def _explain(self, case: Case, work: Bound, found: Parity, how: str, ways: Mapping[str, Bound]) -> None:
        """Add to the reason what more runs show to be the cause."""
        causes = Causes(
            self.device, self.kernel, self.fills, self._make_new,
            lambda again: self._compared(case, again).ok, self.mend, self._raced,
        )  # fmt: skip
        try:
            cause, certain = causes.of(case.label, work, found.message, ways)
        except Exception:  # the verdict stands
            if not self.device.alive():
                raise
            return
        self._conclude(case, parity.because(found, cause), how)
        if certain:
            _drop_guesses(case)

    def _run_and_compare(
        self, case: Case, work: Bound, content: Content, contents: int = 0, judge: Judge | None = None
    ) -> Parity:
        """Fill the output, run once, look for stray writes, compare with the reference."""
        self._make_new(work, content, contents)
        return self._compared(case, work, contents, judge)

    def _compared(self, case: Case, work: Bound, contents: int = 0, judge: Judge | None = None) -> Parity:
        """Run once, look for stray writes, compare with the reference."""
        work.run()
        if touched := self.device.tampered(self.operands) or work.altered():
            self.device.restore(self.arrays)  # so that the next variant is not blamed for it
            return Parity(ok=False, n=self.operands.output.size, message=touched)
        return (judge or self.judge).compare(work.output(), case.label, contents)

    def _make_new(self, work: Bound, content: Content, contents: int = 0) -> None:
        """Make what a run writes as it has to be before: poisoned, filled, or with these contents of the inputs."""
        self.device.poison(work.output(), content)
        if self.kernel.in_place:
            self.device.load(contents, names=self.kernel.in_place)

    def _verify_other_values(self, case: Case, bound: Bound) -> None:
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
            self._conclude(case, found, OTHER_VALUES + (KEPT if most else ""))

    @cached_property
    def _gradient(self) -> tuple[str, list[str]]:
        """What is wrong with the `backward` of the spec, and what to note of it. It gets tensors on the CPU."""
        if not gradient.due(self.kernel, self.dtype):
            return "", []
        if why := torch_missing("cpu"):
            return "", [f"{gradient.NOT}{why}"]
        return gradient.check(self.kernel, self.dtype, self.job.seed, to_torch, as_plain)

    def _verify_gradient(self, case: Case) -> None:
        """Judge the `backward` of the spec, which belongs to each of its entries, if the entry is right so far."""
        if case.status != record.OK:
            return
        fault, notes = self._gradient
        case.notes += notes
        if fault:
            self._conclude(case, Parity(ok=False, n=0, message=fault), "")

    def _verify_other_scalars(self, case: Case, variant: Variant, bound: Bound) -> None:
        """Judge a variant that is right so far with other values of the kernel's scalars."""
        if case.status != record.OK or getattr(variant.backend, "compiles_scalars", False):
            return
        others, judge = self._others
        if not self.job.modes and len(self.contents.arrays) > 1:  # once, at the first size
            case.notes += others.notes
        if not others.values:
            return
        self.at("check with other scalars", case.label)
        kernel, _ = self._chosen(variant, others.kernel)
        judge.allow(case.label, variant.backend.budget)
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
        self._conclude(case, found, how + (WRITTEN_IN.format(used) if used else TAKES_NO_OTHER))

    def _verify_in_place(self, case: Case, bound: Bound) -> None:
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
                self._conclude(case, found, f"in place, with {name!r} as its output too, which pointwise=True allows")

    def _judge_timed(self, label: str, contents: int, output: Any, digest: int, clock: object) -> None:
        """Judge what a timed run left. Raises WrongAnswer, and the row says it."""
        found = self.judge.of_timed(output, label, contents, digest, clock)
        if found and not found.ok:
            self._conclude(self.cases[label], found, "in a timed run")
            raise WrongAnswer(found.message)

    def _conclude(self, case: Case, found: Parity, how: str) -> None:
        """Write a verdict into its row. A WRONG row keeps no time."""
        case.parity = found
        if found.ok:
            return
        case.status, case.times = record.WRONG, {}
        case.reason = found.message + (f" ({how})" if how else "") + self._why_here(case)
        narrow = reference.computes_in((a.dtype for a in self.arrays.values()), self.dtype)
        if case.backend == REFERENCE and narrow == "float32" and found.wrong:
            small = TOO_SMALL_NEAR_0 if parity.NEAR_0 in found.message else TOO_SMALL
            note = small if found.largest < inf else OVERFLOWS
            case.notes += [note] if note not in case.notes else []

    def _why_here(self, case: Case) -> str:
        """What a fault at this size may come from; "" if the variant failed at a usual one."""
        if self.group.values == MANY:
            return "" if (self.kernel.file, case.label) in self.job.wrong else CHOSEN
        if self.group.scalars:
            chosen = ", ".join(f"{name}={n}" for name, n in self.group.scalars)
            return "" if (self.kernel.file, case.label) in self.job.wrong else OTHER_LENGTH.format(chosen)
        self.job.wrong.add((self.kernel.file, case.label))
        return ""

    def failed(self, case: Case, error: Exception) -> None:
        super().failed(case, error)
        if self.group.offsets and "misaligned address" in case.reason:
            case.reason += _aligned(case.reason)
        if not isinstance(error, CompileError):
            case.reason += self._why_here(case)
        if isinstance(error, RaceError):
            self._raced[case.label] = str(error)
        if isinstance(error, OverrunError | RaceError):
            case.status, case.parity = record.WRONG, Parity(ok=False, n=self.operands.output.size, message=case.reason)

    def mend(self) -> None:
        if self.device.tampered(self.operands):
            self.device.restore(self.arrays)  # so that the next variant is not blamed for it

    def before_timing(self) -> None:
        """Add a copy of as many bytes as the variants read and write, where the device has one."""
        self.__dict__.pop("_others", None)  # which hold a reference's results
        self.device.held_down()  # from here on
        nbytes = next((self.cases[label].nbytes for label in self.works), 0)
        if not nbytes or not self.with_copy:
            return
        self.at("prepare to time", record.COPY)
        case = row(self.group, record.COPY)
        case.nbytes, case.status = nbytes, record.CEILING
        try:
            found = ceiling(self.device, nbytes)
        except Exception as error:  # out of memory: a copy needs as much again as the variants
            self.failed(case, error)
            self.cases[record.COPY] = case
            return
        if found:
            self.works[record.COPY], how = found
            self.cases[record.COPY] = case
            case.written = nbytes // 2
            case.notes.append(how)

    def clocks(self, label: str, case: Case) -> Mapping[str, Clock]:
        if label == record.COPY:
            proof = _of_copy(self.device, self.works[label])
        else:
            proof = Proof(self.in_turn, partial(self._judge_timed, label))
        found = timing.clocks(self.device, self.works[label], self.job.modes, case.notes, proof)
        if "graph" in found:
            case.costs["graph build"] = found["graph"].build_seconds
        return found

    def after_samples(self) -> None:
        """Ask for clocks and power, which stand in the copy's row."""
        if not (copy := self.cases.get(record.COPY)):
            return
        self.at("clocks and power", record.COPY)
        try:
            copy.condition |= self.device.condition()
        except Exception as error:  # it needs memory of its own
            self.job.survived(self.group, error)
            copy.notes.append(f"clocks and power could not be read: {said(error, self.group)}")

    def after_turn(self, label: str) -> None:
        """Look for what held the clocks down during the variant's samples, and for stray writes."""
        self._held_down.setdefault(label, {}).update(dict.fromkeys(self.device.held_down()))
        self._threads.turn(label)
        genuine.settled()  # what slows the others down may be undone before the group ends
        if label == record.COPY:
            return
        if touched := self.device.tampered(self.operands, slack=True) or self.works[label].altered():
            self.device.restore(self.arrays)
            if self.cases[label].status == record.OK:  # else its row says what came first
                wrong = Parity(ok=False, n=self.operands.output.size, message=touched)
                self._conclude(self.cases[label], wrong, "in a timed run")
            raise WrongAnswer(touched)

    def timed(self, label: str, case: Case) -> None:
        """Say what held the clocks down, and where not every timed result was compared."""
        refused([case], self._threads.found())
        if slowed := ", ".join(self._held_down.get(label, ())):
            case.condition["throttled"] = slowed
        case.notes += self.judge.left_out(label)


def _aligned(reason: str) -> str:
    """The hint for a misaligned address: the CPU executor says how many bytes the type needs, a GPU does not."""
    needs = re.search(r"needs an alignment of (\d+) bytes", reason)
    return ALIGNED.format(needs[1] if needs else 16)


def _drop_guesses(case: Case) -> None:
    """Leave out of a WRONG row's reason what else its cause could be, where the line of the fault is known."""
    case.reason = without_questions(case.reason.removesuffix(CHOSEN))
    case.parity = case.parity and parity.without_guess(case.parity)


def _of_copy(device: Device, bound: Bound) -> Proof:
    """Judges a copy: its result is what was copied."""
    assert bound.on
    (source,) = bound.on.inputs.values()
    right = device.fingerprint(source)

    def judge(contents: int, output: Any, digest: int, clock: object) -> None:
        if digest != right:
            raise WrongAnswer("the copy is not equal to what was copied")

    return Proof(Contents(1, lambda number, operands: None, np.random.default_rng(0), lambda: None), judge)
