"""Compile, read the machine code, follow a thread, and say what bounds the launch."""

from __future__ import annotations

import fnmatch
import math
import os
from dataclasses import dataclass, replace

from cudalab.base import globs, stats
from cudalab.base.errors import InputError, NotFound, SpecError, unknown
from cudalab.engine import plan
from cudalab.results import record
from cudalab.results.file import load
from cudalab.results.record import Results
from cudalab.spec import cuda_source, find, sizes
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel, Shape
from cudalab.tools.inspect import bounds as bounds_
from cudalab.tools.inspect import diagnosis, launch, machine, path, tools
from cudalab.tools.inspect.bounds import Bounds, Memory
from cudalab.tools.inspect.forms import Compiler, form, once
from cudalab.tools.inspect.machine import Architecture, Card
from cudalab.tools.inspect.mix import Mix, mix
from cudalab.tools.inspect.occupancy import Occupancy, occupancy
from cudalab.tools.inspect.sass import Code

CARD = "H200"  # where neither a card, an architecture nor results are given


@dataclass(frozen=True)
class Inspected:
    """One entry for one dtype and architecture at one size. Times are seconds."""

    kernel: str
    entry: str
    dtype: str
    architecture: str
    size: str
    shape: Shape
    case: launch.Case
    resources: tools.Resources
    occupancy: Occupancy
    mix: Mix
    path: path.Path
    code: Code
    text: str  # of the `.cu`
    digest: str  # its SHA-256
    card: Card | None = None
    bounds: Bounds | None = None
    measured: float | None = None  # the cold median of the results
    remark: str = ""  # what to know of the results, or of the launch parameters
    sentence: str = ""
    hints: tuple[str, ...] = ()

    @property
    def elements(self) -> float:
        """Elements of the largest array for each thread."""
        return self.case.elements / (self.case.blocks * self.case.threads)

    @property
    def instructions(self) -> float:
        """Executed for each element."""
        return self.mix.total / self.elements

    @property
    def bytes(self) -> float:
        """Moved for each element, at least: inputs once, the output once."""
        return self.case.nbytes / self.case.elements

    @property
    def intensity(self) -> float:
        """Floating-point operations for each of these bytes."""
        return self.mix.flops / self.elements / self.bytes

    @property
    def ratio(self) -> float | None:
        """Measured over predicted."""
        return self.measured / self.bounds.predicted if self.measured and self.bounds else None


def inspect(
    kernel: str, dtypes: object = "", only: object = "", size: str = "", archs: object = "", card: str = "",
    file: str | os.PathLike[str] = "", compiled: Compiler = tools.compiled,
) -> list[Inspected]:  # fmt: skip
    """Every entry of a kernel that fits the globs `only`, for each dtype and architecture.

    `size` is one of `bench --sizes`, by default the largest that the spec names. `file` is a results file: its card is
    the default, its copy gives the memory's rate, and its cold times stand beside the prediction. `compiled` makes the
    machine code. Raises the errors of `cudalab.base.errors` for what is not known or cannot be compiled.
    """
    spec, kinds, label, shape = _work(kernel, globs.joined(dtypes), size)
    run = load(file) if file else None
    on, architectures = _machines(card, globs.split(globs.joined(archs)), run)
    entries = _entries(spec, globs.split(globs.joined(only)))
    work = [(kind, name, of) for name, of in architectures for kind in kinds]
    forms = [
        [form(spec, entry, kind, arch, _row(run, spec.name, entry, kind.name, shape)) for entry in entries]
        for kind, arch, _ in work
    ]
    jobs = [(tuned, kind, arch) for (kind, arch, _), row in zip(work, forms, strict=True) for tuned, _ in row]
    made = once(jobs, compiled)
    found = []
    for (kind, arch, of), row in zip(work, forms, strict=True):
        arrays = launch.arrays(spec, kind, shape)
        for entry, (tuned, remark) in zip(entries, row, strict=True):
            case, code = launch.case(tuned, entry, arrays), next(made)
            one = replace(_inspected(tuned, entry, kind, arch, of, code, case, label, shape), remark=remark)
            found.append(diagnosis.diagnosed(_timed(one, on, of, run)))
    return found


def _work(name: str, dtype_text: str, size: str) -> tuple[Kernel, list[DType], str, Shape]:
    """The kernel, its dtypes that are asked for, and the one size."""
    kernel = find.kernel(name)
    label = size or max(kernel.sizes, key=lambda n: math.prod(kernel.sizes[n]))
    shapes = sizes.parse(label, kernel.sizes)
    if len(shapes) != 1:
        raise InputError(f"--size {label} is {len(shapes)} sizes; give one, such as {next(iter(kernel.sizes))}")
    groups = plan.groups([name], label, dtype_text)
    (label, shape), *_ = shapes.items()
    return kernel, [group.dtype for group in groups], label, shape


def _machines(
    card: str, archs: tuple[str, ...], run: Results | None
) -> tuple[Card | None, list[tuple[str, Architecture]]]:
    """The card, and the architectures by the names that nvcc is given."""
    on = machine.card(card) if card else machine.of_machine(run.machine.name) if run else None
    if run and run.machine.device != "cuda":
        raise InputError("the results were measured on a CPU; give --results of a run on a GPU")
    if run and on is None:
        raise NotFound(f"{run.machine.name} is not known here; give --card, one of {', '.join(machine.CARDS)}")
    if on is None and not archs:
        on = machine.card(CARD)
    names = archs or ((on.architecture,) if on else ())
    return on, [(_given(name), machine.architecture(name.rstrip("af"))) for name in names]


def _given(name: str) -> str:
    """As nvcc has it: sm_90a for 90a."""
    return machine.architecture(name.rstrip("af")).name + ("" if name[-1].isdigit() else name[-1])


def _entries(kernel: Kernel, globs: tuple[str, ...]) -> list[str]:
    for glob in globs:
        if not fnmatch.filter(kernel.entries, glob):
            raise unknown(f"entry of {kernel.name}", glob, kernel.entries)
    return [e for e in kernel.entries if not globs or any(fnmatch.fnmatchcase(e, glob) for glob in globs)]


def _inspected(
    kernel: Kernel, entry: str, kind: DType, arch: str, of: Architecture, compiled: tools.Compiled, case: launch.Case,
    label: str, shape: Shape,
) -> Inspected:  # fmt: skip
    if entry not in compiled.code or entry not in compiled.resources:
        raise SpecError(f"{kernel.cu}: nvcc makes no code of {entry}; is it left out by an #if?")
    code, resources = compiled.code[entry], compiled.resources[entry]
    if code.parameters:
        resources = replace(resources, constant=sum(code.parameters))
    walked = path.follow(code, launch.state(code, case, arch))
    shared = resources.shared + case.launch.shared
    return Inspected(
        kernel=kernel.name, entry=entry, dtype=kind.name, architecture=arch, size=label, shape=shape, case=case,
        resources=resources, occupancy=occupancy(of, case.threads, resources.registers, shared),
        mix=mix(code, walked), path=walked, code=code, text=compiled.text,
        digest=cuda_source.digest(kernel.cu),
    )  # fmt: skip


def _timed(one: Inspected, on: Card | None, of: Architecture, run: Results | None) -> Inspected:
    """With bounds for the card, if it is of this architecture, and the measured time, if there is one."""
    if on is None or on.architecture != of.name:
        return one
    memory = _memory(one, on, run)
    found = bounds_.bounds(on, of, memory, one.case.nbytes, one.mix, one.case.blocks, one.case.warps, one.occupancy)
    case = _row(run, one.kernel, one.entry, one.dtype, one.shape)
    remark = one.remark
    if run and (case is None or not case.times):
        remark = f"the results have no time of {one.entry} at this size"
    elif run and run.sources.get(f"{one.kernel}.cu", one.digest) != one.digest:
        remark = f"the results are of another version of {one.kernel}.cu; measure it again"
    return replace(one, card=on, bounds=found, measured=case.median("cold") if case else None, remark=remark)


def _row(run: Results | None, kernel: str, entry: str, dtype: str, shape: Shape) -> record.Case | None:
    """The results' row of an entry."""
    key = kernel, dtype, shape, f"pycuda:{entry}"
    return next((c for c in run.cases if (c.kernel, c.dtype, tuple(c.shape), c.label) == key), None) if run else None


def _same(one: Inspected, case: record.Case) -> bool:
    return (case.kernel, case.dtype, tuple(case.shape)) == (one.kernel, one.dtype, one.shape)


def _memory(one: Inspected, on: Card, run: Results | None) -> Memory:
    """The rate of the copy of as many bytes in the results, else of their largest copy, else of the data sheet."""
    copies = [c for c in run.cases if c.status == record.CEILING and c.median("cold")] if run else []
    if run is None or not copies:
        return Memory(on.bandwidth, on.source)
    best = next((c for c in copies if _same(one, c)), None) or max(copies, key=lambda c: c.nbytes)
    rate, clock = best.bandwidth("cold"), best.condition.get("sm_hz")
    empty = run.calibration.get("empty kernel")
    floor = stats.median([empty]) if empty else 0.0
    assert rate is not None
    hz = float(clock) if isinstance(clock, (int, float)) else None
    return Memory(rate, f"a copy of {best.nbytes / 1e6:,.0f} MB in the results", floor, hz)
