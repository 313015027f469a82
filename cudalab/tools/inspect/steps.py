"""The steps of inspection: compile, read the machine code, follow a thread, and say what bounds the launch."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cudalab.base import globs, stats
from cudalab.base.bounded import guarded
from cudalab.base.errors import InputError, NotFound, SpecError, unknown
from cudalab.base.globs import fits
from cudalab.device import lowered
from cudalab.engine import plan
from cudalab.results import record
from cudalab.results.file import load
from cudalab.results.record import Results
from cudalab.spec import cuda_source, entry_names, find
from cudalab.spec.architecture import Architecture, architecture
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel, Shape
from cudalab.tools.inspect import cards, compilers, diagnosis, thread_path
from cudalab.tools.inspect.bounds import Memory, bounds, occupancy
from cudalab.tools.inspect.cards import Card
from cudalab.tools.inspect.finding import Inspected
from cudalab.tools.inspect.instruction_mix import mix
from cudalab.tools.inspect.traced_launch import TracedLaunch, arrays, first_state, parameterized, traced_launches

BACKEND = "pycuda"  # whose variants the entries are
CARD = "H200"  # the default if no card, architecture or results are given


@guarded()
def inspect(
    kernel: str, dtypes: object = "", only: object = "", skip: object = "", size: str = "", archs: object = "",
    card: str = "", file: str | os.PathLike[str] = "", compiled: compilers.Compiler = compilers.compiled,
) -> list[Inspected]:  # fmt: skip
    """Every entry of a kernel that fits the globs `only` and none of `skip`, for each dtype and architecture.

    An entry of several launches has a record for each, in their order; `finding.wholes` adds them up.
    `size` is one of `bench --size`; the default is the largest that the spec names. `file` is a results file: its card
    is the default card, its copy gives the memory's rate, and its cold times stand beside the prediction. `compiled`
    makes the machine code. Raises the errors of `cudalab.base.errors` for unknown names and for code that does not
    compile.
    """
    spec = find.kernel(kernel)
    label = size or max(spec.sizes, key=lambda n: math.prod(spec.sizes[n]))
    groups = plan.groups([kernel], label, globs.joined(dtypes))
    if (many := len({group.size for group in groups})) != 1:
        raise InputError(f"--size {label} is {many} sizes; give one, such as {next(iter(spec.sizes))}")
    spec, label, shape = groups[0].kernel, groups[0].size, groups[0].shape
    kinds = [group.dtype for group in groups]
    run = load(file) if file else None
    on, names = _machines(card, globs.split(globs.joined(archs)), run)
    entries = chosen_entries([spec], only, skip)[spec.file]
    work = _work(spec, entries, kinds, shape, names, run)
    jobs = [(one.kernel, one.kind, one.architecture, one.launched) for one in work]
    found = []
    for one, code in zip(work, compilers.compiled_once(jobs, compiled), strict=True):
        for launch in one.launches:
            made = _timed(_inspected(one, launch, code, label, shape), on, one.limits, run)
            found.append(replace(made, sentence=diagnosis.sentence(made), hints=tuple(diagnosis.hints(made))))
    return found


@dataclass(frozen=True)
class _Work:
    """An entry to inspect for one dtype and architecture, with the launch parameters that it has there."""

    kernel: Kernel
    entry: str
    kind: DType
    architecture: str  # as nvcc takes it, such as sm_90a
    remark: str
    launches: tuple[TracedLaunch, ...]
    launched: tuple[str, ...]  # the functions that entries of the same dtype and architecture launch

    @property
    def limits(self) -> Architecture:
        return architecture(self.architecture.rstrip("af"))


def _work(
    spec: Kernel, entries: Sequence[str], kinds: Sequence[DType], shape: Shape, archs: Sequence[str],
    run: Results | None,
) -> list[_Work]:  # fmt: skip
    """Return the work in the order of architectures, dtypes and entries."""
    found = []
    for kind in kinds:  # the arrays of one dtype at a time: they may be large
        on = arrays(spec, kind, shape)
        for arch in archs:
            rows = {entry: _row(run, spec.name, entry, kind.name, shape) for entry in entries}
            tuned = {entry: parameterized(spec, entry, kind, arch, rows[entry]) for entry in entries}
            launches = {entry: traced_launches(tuned[entry][0], entry, on) for entry in entries}
            launched = tuple(dict.fromkeys(one.launch.entry for every in launches.values() for one in every))
            found += [_Work(tuned[e][0], e, kind, arch, tuned[e][1], launches[e], launched) for e in entries]
    return sorted(found, key=lambda one: archs.index(one.architecture))


def _machines(card: str, archs: tuple[str, ...], run: Results | None) -> tuple[Card | None, list[str]]:
    """The card, and the architectures as nvcc takes them."""
    on = cards.card(card) if card else cards.of_machine(run.machine.name) if run else None
    if run and run.machine.device != "cuda":
        raise InputError("the results were measured on a CPU; give --results of a run on a GPU")
    if run and on is None:
        raise NotFound(f"{run.machine.name} is not known here; give --card, one of {', '.join(cards.CARDS)}")
    if on is None and not archs:
        on = cards.card(CARD)
    return on, [
        architecture(name.rstrip("af")).name + ("" if name[-1].isdigit() else name[-1])  # sm_90a for 90a
        for name in archs or ((on.architecture,) if on else ())
    ]


def chosen_entries(kernels: Sequence[Kernel], only: object, skip: object) -> dict[str, list[str]]:
    """The entries that fit the globs `only` and none of `skip`, by the file of each kernel that has such entries.

    Raises NotFound for a glob that fits no entry of these kernels, InputError if no entry is left.
    """
    wanted, unwanted = globs.split(globs.joined(only)), globs.split(globs.joined(skip))
    names = ", ".join(kernel.name for kernel in kernels)
    labels = {entry: f"{BACKEND}:{entry}" for kernel in kernels for entry in kernel.entries}
    for glob in (*wanted, *unwanted):
        if not any(fits(label, (glob,)) for label in labels.values()):
            raise unknown(f"entry of {names}", glob, labels)
    kept = {e for e, label in labels.items() if (not wanted or fits(label, wanted)) and not fits(label, unwanted)}
    if not kept:
        raise InputError(f"no entry of {names} is left; check --only and --skip against `cudalab list`")
    found = {kernel.file: [entry for entry in kernel.entries if entry in kept] for kernel in kernels}
    return {file: entries for file, entries in found.items() if entries}


def _inspected(
    work: _Work, traced: TracedLaunch, compiled: compilers.Compiled, label: str, shape: Shape
) -> Inspected:  # fmt: skip
    kernel, function = work.kernel, traced.launch.entry
    names = entry_names.in_all(compiled.text, kernel.entries, work.launched)
    names = entry_names.not_plain(compiled.text, names)
    symbol = lowered.among(compiled.code.keys(), names)[function] if function in names else function
    if symbol not in compiled.code or symbol not in compiled.resources:
        raise SpecError(f"{kernel.cu}: nvcc generates no code for {function}; does an #if exclude it?")
    code, resources = compiled.code[symbol], compiled.resources[symbol]
    if code.parameters:
        resources = replace(resources, constant=sum(code.parameters))
    path = thread_path.follow(code, first_state(code, traced, work.architecture))
    shared = resources.shared + traced.launch.shared
    return Inspected(
        kernel=kernel.name, entry=work.entry, dtype=work.kind.name, architecture=work.architecture, size=label,
        shape=shape, traced=traced, resources=resources, mix=mix(code, path), path=path, code=code,
        occupancy=occupancy(work.limits, traced.threads, resources.registers, shared),
        text=compiled.text, digest=cuda_source.digest(kernel.cu), remark=work.remark if traced.last else "",
    )  # fmt: skip


def _timed(one: Inspected, on: Card | None, of: Architecture, run: Results | None) -> Inspected:
    """With bounds if the card is of this architecture, and with the measured time if the results have one."""
    if on is None or on.architecture != of.name:
        return one
    found = bounds(on, of, _memory(one, on, run), one.traced, one.mix, one.occupancy)
    case = _row(run, one.kernel, one.entry, one.dtype, one.shape)
    remark = one.remark
    if not one.traced.last:  # it is about the entry
        remark = ""
    elif run and (case is None or not case.times):
        remark = f"the results have no time of {one.entry} at this size"
    elif run and run.sources.get(f"{one.kernel}.cu", one.digest) != one.digest:
        remark = f"the results are of another version of {one.kernel}.cu; measure it again"
    return replace(one, card=on, bounds=found, measured=case.median("cold") if case else None, remark=remark)


def _row(run: Results | None, kernel: str, entry: str, dtype: str, shape: Shape) -> record.Case | None:
    """Return the row of an entry in the results."""
    key = kernel, dtype, shape, f"{BACKEND}:{entry}"
    return next((c for c in run.cases if (c.kernel, c.dtype, tuple(c.shape), c.label) == key), None) if run else None


def _memory(one: Inspected, on: Card, run: Results | None) -> Memory:
    """The rate of the results' copy of the same bytes, or else of their largest copy, or else of the data sheet."""
    copies = [c for c in run.cases if c.status == record.CEILING and c.median("cold")] if run else []
    if run is None or not copies:
        return Memory(on.bandwidth, on.source)
    same = [c for c in copies if (c.kernel, c.dtype, tuple(c.shape)) == (one.kernel, one.dtype, one.shape)]
    best = same[0] if same else max(copies, key=lambda c: c.nbytes)
    rate, clock = best.bandwidth("cold"), best.condition.get("sm_hz")
    empty = run.calibration.get("empty kernel")
    floor = stats.median([empty]) if empty else 0.0
    assert rate is not None
    if one.traced.number > 1:
        floor = 0.0  # the first launch of the entry has it
    hz = float(clock) if isinstance(clock, (int, float)) else None
    return Memory(rate, f"a copy of {best.nbytes / 1e6:,.0f} MB in the results", floor, hz)
