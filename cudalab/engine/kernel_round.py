"""A kernel's group in the worker: make inputs and reference, then one round over its variants.

A variant is judged (`engine/verdicts.py`) before it is timed, and its results again after timing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from time import perf_counter
from typing import Any

import numpy as np

from cudalab import backends, timing
from cudalab.base import beside, genuine
from cudalab.base.errors import CudalabError, InputError, Unavailable
from cudalab.base.packages import DoesNotWork
from cudalab.checks import characters, inputs, many_blocks, parity, vacuous
from cudalab.checks.expected import Expected, results
from cudalab.device.arrays import overlap
from cudalab.device.operands import Bound, Operands, pieces
from cudalab.device.protocol import Device
from cudalab.engine import against, huge, peers
from cudalab.engine.cause import RACE
from cudalab.engine.groups import HUGE, MANY, SAME, Group, Variant
from cudalab.engine.inputs import Inputs
from cudalab.engine.job import Job
from cudalab.engine.messages import Step
from cudalab.engine.rows import failed, not_compiled, refused, row, said, skipped
from cudalab.engine.verdicts import REFERENCE, Verdicts, WrongAnswer, drop_guesses
from cudalab.results import record
from cudalab.results.record import Case, Parity
from cudalab.spec import cuda_source
from cudalab.spec.inputs import NEGATIVE
from cudalab.spec.work import amount, doubts
from cudalab.timing.ceiling import ceiling
from cudalab.timing.clock import LOADED, Clock
from cudalab.timing.proof import Contents, Proof

NO_EDGES = "no awkward shape was tried: edges is empty; give some, such as edges=((1,), (31,))"


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
    compared = defaultdict[str, list[Parity]](list)  # by label, those of the parts
    whole = [group.kernel.kind_of(out, group.dtype).floating for out in group.kernel.outs] == [True]
    for part in range(group.parts):
        try:
            found = _rows_of_part(job, group, variants, record.COPY not in omit, part)
        finally:
            job.release(group)
        for case in found:
            compared[case.label] += [case.parity] if case.parity else []
        rows = [_both(before, found, compared[before.label], whole) for before in rows] if part else found
        ran = {case.label for case in rows if case.status in (record.OK, record.WRONG)}
        variants = [v for v in variants if v.label in ran]
    return rows


def _rows_of_part(job: Job, group: Group, variants: list[Variant], with_copy: bool, part: int) -> list[Case]:
    try:
        with job.phase("inputs and reference"):
            job.at(Step(str(group), "inputs"))
            if group.values == MANY and (why := many_blocks.too_slow(group.kernel, group.dtype, group.shape)):
                return [skipped(group, v.label, why) for v in variants]
            if not job.made or callable(group.kernel.inputs):  # a function may leave what others of the spec read
                arrays = group.arrays(job.seed, part)
            arrays = job.made[0][0] if job.made else arrays
            want = None
            # Where the outputs are known, the reference may not be needed.
            if not (job.made or (job.process and job.known)):
                job.at(Step(str(group), "reference"))
                want = Expected(group.kernel, arrays)
                if not group.values and not group.awkward:
                    vacuous.refuse(group.kernel, group.dtype, arrays, job.seed)
            job.at(Step(str(group), "placing the arrays"))
            operands = replace(
                job.device.place(group.kernel, group.dtype, arrays, group.offsets),
                seed=job.seed,
                limit=many_blocks.LIMIT if group.values in (MANY, SAME) else inf,
            )
            contents = Inputs(job, group, arrays, want, operands)
    except Exception as error:  # the spec's own, or out of memory: no variant of this group can run
        job.survived(group, error)
        reason = f"cannot make inputs and reference: {said(error, group)}"
        return [failed(group, v.label, reason) for v in variants]
    return _KernelRound(job, group, contents, operands, with_copy).rows(variants)


def _of_library(variant: Variant) -> bool:
    return variant.backend_name not in record.ENTRIES


def _both(before: Case, found: list[Case], compared: list[Parity], whole: bool) -> Case:
    """A variant's row of all parts so far: `found` has the row of the next part, unless it was left out.

    `compared` is of these parts, for `whole` see `parity.joined`.
    """
    part = next((case for case in found if case.label == before.label), None)
    if part is None or part.parity is None or before.parity is None:
        return part or before
    part.parity = parity.joined(compared, whole)
    part.status, part.reason = (record.OK, "") if part.parity.ok else (record.WRONG, part.parity.message)
    return part


class _KernelRound(Verdicts):
    """The round of one group, on arrays that are placed on the device."""

    checking = "compile and check"

    def __init__(self, job: Job, group: Group, contents: Inputs, operands: Operands, with_copy: bool) -> None:
        super().__init__(job, group, contents, operands)
        self.with_copy = with_copy
        self._tells = ""  # the label of the row that has the notes about the spec
        self._tells_of_source = ""  # the label of the row that has the notes about the `.cu`
        self._threads = beside.Watch(lambda label: label.startswith("rival:"))
        self._held_down: dict[str, dict[str, None]] = {}  # by label, reasons
        self._held_under_load: dict[str, dict[str, None]] = {}  # the same, in the rounds that load the device

    def rows(self, variants: Sequence[Variant]) -> list[Case]:
        """Implements `Round.rows`. One row has the notes about the spec: the reference's, else the first one.

        The first entry's row has those about the `.cu`.
        """
        first = variants[0].label if variants else ""
        self._tells = next((v.label for v in variants if v.backend_name == REFERENCE), first)
        self._tells_of_source = next((v.label for v in variants if v.backend_name in record.ENTRIES), "")
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
        if reason := backends.missing(backend, self.device.kind) or self.job.left_out.get(variant.backend_name):
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
        if label == self._tells_of_source and not self.job.modes:
            case.notes += filter(None, [cuda_source.left_out(self.kernel.cu)])
        if label == self._tells and self.kernel.pointwise and first_size:
            case.notes += [f"no hard values were tried: {why}" for why in inputs.no_place(self.kernel, self.arrays)]
        if label == self._tells and first_size and not self.group.values:
            want = self.contents.want(0)
            wanted = results(self.kernel, self.dtype, want)
            case.notes += inputs.undefined(self.arrays, wanted)
            case.notes += vacuous.zeros_pass(self.kernel, self.dtype, want, wanted) or vacuous.idle(
                self.kernel, self.dtype, self.arrays, self.contents.arrays[1], wanted
            )
            case.notes += [NO_EDGES] if not self.kernel.edges else []
            case.notes += [] if self.kernel.pointwise else characters.not_tried(self.kernel)
        case.composed = backend.budget == "composed"
        self.judge.allow(label, backend.budget, getattr(backend, "flushes", ""))
        for name, array in self.operands.inputs.items() if bound.on is None else ():
            if any(overlap(piece, array) for piece in pieces(bound.output())):
                raise InputError(
                    f"its result shares memory with its input {name!r}; return a copy, such as {name}.clone()"
                )

        self.at("check", label)
        if not backend.timed:
            first = self.judge.compare(bound.output(), label)
        self.verify(case, bound, again=first is None or not first.ok)
        if first is not None and case.status == record.OK:  # later launches find what it left in __device__ memory
            self.conclude(case, first, "in its first launch")
        if not (self.job.modes and backend.timed):  # timed runs meet other values, and each is judged
            self.verify_other_values(case, bound)
        for how, other in self._ways(bound):
            if RACE in how and label in self.raced:
                continue
            self.verify(case, other, how, usual=bound)
        if self.kernel.scalars and not (self.group.values or self.group.offsets):
            self.verify_other_scalars(case, variant, bound)
        if first_size and not self.group.values and variant.name in self.kernel.entries:
            self.verify_gradient(case)
        if self.group.awkward and self.kernel.pointwise and self.kernel.simple and variant.name in self.kernel.entries:
            self.verify_in_place(case, bound)
        case.notes += bound.remarks() + (self.judge.doubts(label) if case.status == record.OK else [])
        if case.status == record.WRONG and bound.undefined():  # a remark names its line
            drop_guesses(case)
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
        self.make_new(bound, self.fills[0])  # the CPU's, which ends with the call
        start = perf_counter()
        bound.run()
        case.costs["first run"] = perf_counter() - start

    def _bind(self, variant: Variant, case: Case) -> Bound:
        self.at("compile", variant.label)
        start = perf_counter()
        kernel, notes = self.chosen(variant, self.kernel)
        case.parameters = kernel.parameters if variant.name in kernel.entries else {}
        case.notes += notes + getattr(variant.backend, "remarks", lambda kernel: [])(kernel)
        if variant.old:
            against.fits(kernel, self.kernel, variant.name, self.operands.by_name(kernel))
        bound = variant.backend.bind(kernel, variant.name, self.dtype, self.operands)
        case.costs = {"bind": perf_counter() - start}
        return bound

    def before_timing(self) -> None:
        """Add a copy of as many bytes as the variants read and write, where the device has one."""
        self.__dict__.pop("_others", None)  # which hold a reference's results
        if self.works and not (self.job.process and self.job.known):
            self.contents.want_all(lambda: self.at("reference", ""))
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
            proof = Proof(self.in_turn, partial(self.judge_timed, label))
        helps = self.job.process >= self.job.processes  # a further process, for what its times alone tell
        died = self.job.unloaded.get(label, "")
        modes = [mode for mode in self.job.modes if not ((helps or died) and mode in LOADED)]
        case.notes += [f"no {mode}: {died}" for mode in self.job.modes if died and mode in LOADED]
        found = timing.clocks(self.device, self.works[label], modes, case.notes, proof, self.job.alive)
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
        slowed = self._held_under_load if self.loaded else self._held_down
        slowed.setdefault(label, {}).update(dict.fromkeys(self.device.held_down()))
        self._threads.turn(label)
        genuine.settled()  # what slows the others down may be undone before the group ends
        if label == record.COPY:
            return
        if touched := self.device.tampered(self.operands, slack=True) or self.works[label].altered():
            self.device.restore(self.arrays)
            if self.cases[label].status == record.OK:  # else its row says what came first
                wrong = Parity(ok=False, n=self.operands.output.size, message=touched)
                self.conclude(self.cases[label], wrong, "in a timed run")
            raise WrongAnswer(touched)

    def timed(self, label: str, case: Case) -> None:
        """Say what held the clocks down, and where not every timed result was compared."""
        refused([case], self._threads.found())
        if slowed := ", ".join(self._held_down.get(label, ())):
            case.condition["throttled"] = slowed
        case.notes += self.judge.left_out(label)

    def loaded_up(self, label: str, case: Case) -> None:
        """Say what held the clocks down under load, which does not concern the usual times."""
        refused([case], self._threads.found())
        if slowed := ", ".join(self._held_under_load.get(label, ())):
            case.condition[record.UNDER_LOAD] = slowed


def _of_copy(device: Device, bound: Bound) -> Proof:
    """Judges a copy: its result is what was copied."""
    assert bound.on
    (source,) = bound.on.inputs.values()
    right = device.fingerprint(source)

    def judge(contents: int, output: Any, digest: int, clock: object) -> None:
        if digest != right:
            raise WrongAnswer("the copy is not equal to what was copied")

    return Proof(Contents(1, lambda number, operands: None, np.random.default_rng(0), lambda: None), judge)
