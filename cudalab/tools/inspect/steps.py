"""The steps of inspection: compile, read the machine code, follow a thread, and say what bounds the launch."""

from __future__ import annotations

import math
import os
from dataclasses import replace

from cudalab.base import globs, stats
from cudalab.base.errors import InputError, NotFound, SpecError, unknown
from cudalab.base.globs import fits
from cudalab.device import lowered
from cudalab.engine import plan
from cudalab.results import record
from cudalab.results.file import load
from cudalab.results.record import Results
from cudalab.spec import cuda_source, entry_names, find, sizes
from cudalab.spec.architecture import Architecture, architecture
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Arrays, Kernel, Shape
from cudalab.tools.inspect import cards, compilers, diagnosis, thread_path
from cudalab.tools.inspect.bounds import Memory, bounds, occupancy
from cudalab.tools.inspect.cards import Card
from cudalab.tools.inspect.finding import Inspected
from cudalab.tools.inspect.instruction_mix import mix
from cudalab.tools.inspect.traced_launch import arrays, first_state, parameterized, traced_launch

BACKEND = "pycuda"  # whose variants the entries are
CARD = "H200"  # the default if no card, architecture or results are given


def inspect(
    kernel: str, dtypes: object = "", only: object = "", size: str = "", archs: object = "", card: str = "",
    file: str | os.PathLike[str] = "", compiled: compilers.Compiler = compilers.compiled,
) -> list[Inspected]:  # fmt: skip
    """Every entry of a kernel that fits the globs `only`, for each dtype and architecture.

    `size` is one of `bench --size`; the default is the largest that the spec names. `file` is a results file: its card
    is the default card, its copy gives the memory's rate, and its cold times stand beside the prediction. `compiled`
    makes the machine code. Raises the errors of `cudalab.base.errors` for unknown names and for code that does not
    compile.
    """
    spec = find.kernel(kernel)
    label = size or max(spec.sizes, key=lambda n: math.prod(spec.sizes[n]))
    shapes = sizes.parse(label, spec.sizes)
    if len(shapes) != 1:
        raise InputError(f"--size {label} is {len(shapes)} sizes; give one, such as {next(iter(spec.sizes))}")
    kinds = [group.dtype for group in plan.groups([kernel], label, globs.joined(dtypes))]
    (label, shape), *_ = shapes.items()
    run = load(file) if file else None
    on, architectures = _machines(card, globs.split(globs.joined(archs)), run)
    entries = _entries(spec, globs.split(globs.joined(only)))
    work = [
        (kind, arch, of, entry, *parameterized(spec, entry, kind, arch, _row(run, spec.name, entry, kind.name, shape)))
        for arch, of in architectures
        for kind in kinds
        for entry in entries
    ]
    codes = compilers.compiled_once([(tuned, kind, arch) for kind, arch, _, _, tuned, _ in work], compiled)
    found = []
    given: dict[str, Arrays] = {}
    for (kind, arch, of, entry, tuned, remark), code in zip(work, codes, strict=True):
        if kind.name not in given:
            given = {kind.name: arrays(spec, kind, shape)}  # those of one dtype at a time: they may be large
        one = _inspected(tuned, entry, kind, arch, of, code, given[kind.name], label, shape)
        one = _timed(replace(one, remark=remark), on, of, run)
        found.append(replace(one, sentence=diagnosis.sentence(one), hints=tuple(diagnosis.hints(one))))
    return found


def _machines(
    card: str, archs: tuple[str, ...], run: Results | None
) -> tuple[Card | None, list[tuple[str, Architecture]]]:
    """The card, and the architectures by the names that nvcc takes."""
    on = cards.card(card) if card else cards.of_machine(run.machine.name) if run else None
    if run and run.machine.device != "cuda":
        raise InputError("the results were measured on a CPU; give --results of a run on a GPU")
    if run and on is None:
        raise NotFound(f"{run.machine.name} is not known here; give --card, one of {', '.join(cards.CARDS)}")
    if on is None and not archs:
        on = cards.card(CARD)
    architectures = []
    for name in archs or ((on.architecture,) if on else ()):
        of = architecture(name.rstrip("af"))
        architectures.append((of.name + ("" if name[-1].isdigit() else name[-1]), of))  # sm_90a for 90a
    return on, architectures


def _entries(kernel: Kernel, globs: tuple[str, ...]) -> list[str]:
    for glob in globs:
        if not any(fits(f"{BACKEND}:{entry}", (glob,)) for entry in kernel.entries):
            raise unknown(f"entry of {kernel.name}", glob, kernel.entries)
    return [entry for entry in kernel.entries if not globs or fits(f"{BACKEND}:{entry}", globs)]


def _inspected(
    kernel: Kernel, entry: str, kind: DType, arch: str, of: Architecture, compiled: compilers.Compiled, on: Arrays,
    label: str, shape: Shape,
) -> Inspected:  # fmt: skip
    launch = traced_launch(kernel, entry, on)
    names = entry_names.not_plain(compiled.text, entry_names.in_all(compiled.text, kernel.entries))
    entry_of = launch.launch.entry
    symbol = lowered.among(compiled.code.keys(), names)[entry_of] if entry_of in names else entry_of
    if symbol not in compiled.code or symbol not in compiled.resources:
        raise SpecError(f"{kernel.cu}: nvcc makes no code of {entry}; is it left out by an #if?")
    code, resources = compiled.code[symbol], compiled.resources[symbol]
    if code.parameters:
        resources = replace(resources, constant=sum(code.parameters))
    path = thread_path.follow(code, first_state(code, launch, arch))
    shared = resources.shared + launch.launch.shared
    return Inspected(
        kernel=kernel.name, entry=entry, dtype=kind.name, architecture=arch, size=label, shape=shape, traced=launch,
        resources=resources, occupancy=occupancy(of, launch.threads, resources.registers, shared),
        mix=mix(code, path), path=path, code=code, text=compiled.text, digest=cuda_source.digest(kernel.cu),
    )  # fmt: skip


def _timed(one: Inspected, on: Card | None, of: Architecture, run: Results | None) -> Inspected:
    """With bounds if the card is of this architecture, and with the measured time if the results have one."""
    if on is None or on.architecture != of.name:
        return one
    found = bounds(on, of, _memory(one, on, run), one.traced, one.mix, one.occupancy)
    case = _row(run, one.kernel, one.entry, one.dtype, one.shape)
    remark = one.remark
    if run and (case is None or not case.times):
        remark = f"the results have no time of {one.entry} at this size"
    elif run and run.sources.get(f"{one.kernel}.cu", one.digest) != one.digest:
        remark = f"the results are of another version of {one.kernel}.cu; measure it again"
    return replace(one, card=on, bounds=found, measured=case.median("cold") if case else None, remark=remark)


def _row(run: Results | None, kernel: str, entry: str, dtype: str, shape: Shape) -> record.Case | None:
    """The row of an entry in the results."""
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
    hz = float(clock) if isinstance(clock, (int, float)) else None
    return Memory(rate, f"a copy of {best.nbytes / 1e6:,.0f} MB in the results", floor, hz)
