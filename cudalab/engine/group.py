"""A kernel's group in the worker: make inputs and reference, then one round over its variants.

The order of a verdict: fill the output, run, look for writes where no kernel may write, compare with the reference;
again with other contents of the output. A variant whose result is wrong has no time, and results are judged again after
timing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import msgspec
import numpy as np

from cudalab import timing
from cudalab.backends import numpy as reference
from cudalab.base.errors import CudalabError, InputError, NotOnCpu, OverrunError, RaceError, Unavailable
from cudalab.checks import characters, hard_inputs, inputs, parity
from cudalab.checks.expected import Expected
from cudalab.device import cuda
from cudalab.device.arrays import as_plain, overlap
from cudalab.device.guard import Content, fills
from cudalab.device.operands import Bound, Operands, pieces
from cudalab.device.protocol import Device
from cudalab.engine import huge
from cudalab.engine.inputs import Inputs
from cudalab.engine.job import Job
from cudalab.engine.messages import Step
from cudalab.engine.plan import HUGE, Group, Variant
from cudalab.engine.round import Round
from cudalab.engine.rows import failed, row, said
from cudalab.results import record
from cudalab.results.record import Case, Parity
from cudalab.spec import tuned
from cudalab.spec.inputs import CHARACTERS
from cudalab.spec.kernel import Budget
from cudalab.spec.work import amount
from cudalab.timing.ceiling import ceiling
from cudalab.timing.clock import Clock
from cudalab.timing.proof import Contents, Proof

REFERENCE = "numpy"  # the backend that runs the spec's reference
SMALL = 1 << 16  # bytes of an output that is always compared in full
FULL = 12  # comparisons of one variant's timed results in full, after which only one in FULL is; see `_judge`
OTHER_VALUES = "with other values in the same inputs: are results kept from an earlier call?"
UNSET = "the result depends on what the output held before the launch: is every element written, and none read?"
RESTLESS = "its bits differ from run to run: {} of {} timed results were compared with the reference, all right"


def cases(job: Job, group: Group, omit: Collection[str] = ()) -> list[Case]:
    """Rows of every selected variant of a group, without those whose label is in `omit`.

    Where the inputs come in parts, each variant runs on all of them. Raises ContextLost where the device is no longer
    usable.
    """
    variants = [v for v in job.selection.variants(group, job.device.kind) if v.label not in omit]
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
            arrays = group.arrays(job.seed, part)
            want = None
            if not (job.process and job.known):  # else the outputs are known, and the reference may not be needed
                job.at(Step(str(group), "reference"))
                want = Expected(group.kernel, arrays)
            job.at(Step(str(group), "placing the arrays"))
            operands = replace(job.device.place(group.kernel, group.dtype, arrays, group.offsets), seed=job.seed)
            contents = Inputs(job, group, arrays, want, operands)
    except Exception as error:  # the spec's own, or out of memory: no variant of this group can run
        job.survived(group, error)
        reason = f"cannot make inputs and reference: {said(error, group)}"
        return [failed(group, v.label, reason) for v in variants]
    return _KernelRound(job, group, contents, operands, with_copy).rows(variants)


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
        self.budgets: dict[str, dict[str, Budget]] = {}  # by label and output
        self.compared = job.known if contents.names else dict[str, Parity]()  # see `_key`
        self.judged: dict[str, Counter[str]] = {}  # by label: timed results, and those that were compared in full
        self._held_down: dict[str, dict[str, None]] = {}  # by label, reasons
        self.fills = fills(self.dtype, job.seed)  # of the output before a run; the first one after `place`

    def prepare(self, variant: Variant, case: Case) -> None:
        """Bind a variant, run it once, and judge every way to run it."""
        label, backend = variant.label, variant.backend
        results = sum(piece.nbytes for piece in pieces(self.operands.output))
        work = amount(self.kernel, self.arrays, results)
        case.nbytes, case.written, case.flops = work.nbytes, work.written, work.flops
        bound = self._bind(variant, case)
        case.allocates = bound.allocates
        self.at("first run", label)
        first: Parity | None = None  # of a first launch
        if backend.timed:
            case.costs["first run"] = timing.warm_up(self.device, bound)
        else:  # the CPU's, which ends with the call
            self._make_new(bound, self.fills[0])
            start = perf_counter()
            bound.run()
            case.costs["first run"] = perf_counter() - start
        first_size = not self.job.modes and len(self.contents.arrays) > 1
        if variant.backend_name == REFERENCE and self.kernel.pointwise and first_size:
            case.notes += [f"no hard values were tried: {why}" for why in inputs.not_floating(self.arrays)]
        case.composed = backend.budget == "composed"
        self.budgets[label] = self._budgets(backend.budget)
        for name, array in self.operands.inputs.items() if bound.on is None else ():
            if any(overlap(piece, array) for piece in pieces(bound.output())):
                raise InputError(f"returns the memory of its input {name!r}; give a copy of it, such as {name}.clone()")

        self.at("check", label)
        if not backend.timed:
            first = self._compare(bound.output(), label)
        self._verify(case, bound, again=first is None or not first.ok)
        if first is not None and case.status == record.OK:  # later launches find what it left in __device__ memory
            self._conclude(case, first, "in its first launch")
        if not (self.job.modes and backend.timed):  # timed runs meet other values, and each is judged
            self._verify_other_values(case, bound)
        # Hard values take long, and test values and not the ways to run.
        for how, other in bound.also.items() if not self.group.values else ():
            self._verify(case, other, how)
        if self.group.awkward and self.kernel.pointwise and self.kernel.simple and variant.name in self.kernel.entries:
            self._verify_in_place(case, bound)
        case.notes += bound.remarks()
        if case.status == record.OK and backend.timed:
            self.works[label] = bound

    def _budgets(self, whose: str) -> dict[str, Budget]:
        """By output, how far a result may be from the reference."""
        found = {name: self.kernel.budget(self.dtype, whose, name) for name in self.kernel.outs}
        if self.group.values not in CHARACTERS:
            return found
        return characters.widened(self.kernel, self.dtype, self.arrays, self.contents.want(0), found, self.job.seed)

    def _bind(self, variant: Variant, case: Case) -> Bound:
        if reason := variant.backend.missing(self.device.kind):
            raise Unavailable(reason)
        self.at("compile", variant.label)
        start = perf_counter()
        card = cuda.card_of(self.device)
        kernel, notes = tuned.for_variant(self.kernel, variant.name, variant.parameters, self.dtype, card)
        case.parameters = kernel.parameters if variant.name in kernel.entries else {}
        case.notes += notes + getattr(variant.backend, "remarks", lambda kernel: [])(kernel)
        try:
            bound = variant.backend.bind(kernel, variant.name, self.dtype, self.operands)
        except NotOnCpu as refused:
            case.costs = {"nvcc": refused.compiled}
            raise
        case.costs = {"bind": perf_counter() - start}
        return bound

    def _verify(self, case: Case, work: Bound, how: str = "", again: bool = True) -> None:
        """Judge a variant that is right so far, with each content of the output; not `again`: without the first one."""
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
        if found.wrong and content != first and self._run_and_compare(case, work, first).ok:
            found = msgspec.structs.replace(found, message=f"{found.message} ({UNSET})")
        self._conclude(case, found, how)

    def _run_and_compare(self, case: Case, work: Bound, content: Content, contents: int = 0) -> Parity:
        """Fill the output, run once, look for stray writes, compare with the reference."""
        self._make_new(work, content, contents)
        work.run()
        if touched := self.device.tampered(self.operands):
            self.device.restore(self.arrays)  # so that the next variant is not blamed for it
            return Parity(ok=False, n=self.operands.output.size, message=touched)
        return self._compare(work.output(), case.label, contents)

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
            self._conclude(case, found, OTHER_VALUES)

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

    def _compare(self, output: Any, label: str, contents: int = 0, digest: int | None = None) -> Parity:
        """Compare an output with the reference for these contents. Bits are compared once.

        `digest`: the output's fingerprint, where it is known.
        """
        results, budgets = [as_plain(piece) for piece in pieces(output)], self.budgets[label]
        digest = self.device.fingerprint(output) if digest is None else digest
        seen = self._key(contents, digest, results, budgets)
        if seen in self.compared:
            return self.compared[seen]
        got = [self.device.fetch(result) for result in results]
        arrays, want = self.contents.arrays[contents], self.contents.want(contents)
        found = parity.compare_all(self.kernel, self.dtype, budgets, got, want, arrays)
        x = next(iter(arrays.values()))
        every = self.group.values == hard_inputs.EVERY and x.dtype.itemsize == 2
        if every and len(got) == 1 and self.dtype.floating and (found.ok or found.wrong):
            name = next(iter(self.kernel.outs))
            found.curve = parity.error_curve(x, got[0], want.of(name, {}), self.dtype)
        self.compared[seen] = found
        return found

    def _key(self, contents: int, digest: int, results: Sequence[Any], budgets: Mapping[str, Budget]) -> str:
        """Names a comparison: the contents of the inputs and of the output, and the budgets."""
        name = self.contents.names[contents] if self.contents.names else contents
        like = " ".join(f"{result.shape} {result.dtype}" for result in results)
        return f"{name} {digest:x} {like} {' '.join(map(str, budgets.values()))}"

    def _judge(self, label: str, contents: int, output: Any, digest: int) -> None:
        """Judge what a timed run left. Raises WrongAnswer, and the row says it.

        A variant whose bits differ from run to run would be compared on the CPU after every run. After FULL such
        comparisons one result in FULL is compared, which one is drawn; small results always are.
        """
        results, seen = [as_plain(piece) for piece in pieces(output)], self.judged.setdefault(label, Counter())
        seen["all"] += 1
        if self._key(contents, digest, results, self.budgets[label]) not in self.compared:
            if seen["compared"] >= FULL and sum(r.nbytes for r in results) > SMALL and self.in_turn.rng.integers(FULL):
                seen["left out"] += 1
                return
            seen["compared"] += 1
        found = self._compare(output, label, contents, digest)
        if not found.ok:
            self._conclude(self.cases[label], found, "in a timed run")
            raise WrongAnswer(found.message)

    def _conclude(self, case: Case, found: Parity, how: str) -> None:
        """Write a verdict into its row. A WRONG row keeps no time."""
        case.parity = found
        if found.ok:
            return
        case.status, case.times = record.WRONG, {}
        case.reason = found.message + (f" ({how})" if how else "")
        narrow = reference.computes_in((a.dtype for a in self.arrays.values()), self.dtype)
        if case.backend == REFERENCE and narrow == "float32" and found.wrong:
            case.notes.append("the reference itself, in float32, is WRONG too: is the budget too small?")

    def failed(self, case: Case, error: Exception) -> None:
        super().failed(case, error)
        if isinstance(error, OverrunError | RaceError):
            case.status, case.parity = record.WRONG, Parity(ok=False, n=self.operands.output.size, message=case.reason)

    def mend(self) -> None:
        if self.device.tampered(self.operands):
            self.device.restore(self.arrays)  # so that the next variant is not blamed for it

    def before_timing(self) -> None:
        """Add a copy of as many bytes as the variants read and write, where the device has one."""
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
            proof = Proof(self.in_turn, partial(self._judge, label))
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
        if label != record.COPY and (touched := self.device.tampered(self.operands, slack=True)):
            self.device.restore(self.arrays)
            if self.cases[label].status == record.OK:  # else its row says what came first
                wrong = Parity(ok=False, n=self.operands.output.size, message=touched)
                self._conclude(self.cases[label], wrong, "in a timed run")
            raise WrongAnswer(touched)

    def timed(self, label: str, case: Case) -> None:
        """Say what held the clocks down, and where not every timed result was compared."""
        if slowed := ", ".join(self._held_down.get(label, ())):
            case.condition["throttled"] = slowed
        seen = self.judged.get(label, Counter())
        if seen["left out"]:
            case.notes.append(RESTLESS.format(seen["all"] - seen["left out"], seen["all"]))


def _of_copy(device: Device, bound: Bound) -> Proof:
    """Judges a copy: its result is what was copied."""
    assert bound.on
    (source,) = bound.on.inputs.values()
    right = device.fingerprint(source)

    def judge(contents: int, output: Any, digest: int) -> None:
        if digest != right:
            raise WrongAnswer("the copy is not equal to what was copied")

    return Proof(Contents(1, lambda number, operands: None, np.random.default_rng(0), lambda: None), judge)
