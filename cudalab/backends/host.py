"""The `.cu`, compiled by the host's C++ compiler and run on the CPU. It checks and is never timed.

What the CPU cannot run is compiled by nvcc, if there is one, and skipped. nvcc also tells a mistake in the `.cu` from
what the CPU executor lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

from cudalab import host
from cudalab.base.errors import CompileError, NotOnCpu, SpecError
from cudalab.device import nvcc
from cudalab.device.operands import Bound, Operands, writing
from cudalab.spec import cuda_source, entry_names
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel, labelled

devices = ("cpu",)
timed = False
budget = "budgets"
own_indexing = True


def missing(device: str) -> str | None:
    return host.compiler_missing()


def variants(kernel: Kernel) -> tuple[str, ...]:
    return tuple(kernel.entries)


def remarks(kernel: Kernel) -> list[str]:
    """What a reader of a row must know about how it was compiled."""
    return [f"compiled without {' '.join(kernel.flags)}: g++ has no such option"] if kernel.flags else []


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    # A race may give the right result in one order of the threads; CUDA promises no order.
    others: dict[str, host.Order] = {"forward": "forward", "reverse": "reverse", "shuffled": operands.seed}
    also = {
        f"with blocks and threads in {name} order": _bound(kernel, variant, dtype, operands, order)
        for name, order in others.items()
    }
    if len(configurations := kernel.configurations()) > 1:  # a GPU may use another than the default
        chosen = kernel.with_parameters(configurations[-1])
        also[f"as {labelled(variant, chosen.parameters)}"] = _bound(chosen, variant, dtype, operands, "alternating")
    entries = dict.fromkeys(launch.entry for launch in kernel.launches(variant, operands.named(kernel)))
    module = _compiled(kernel, dtype, tuple(entries))
    return replace(
        _bound(kernel, variant, dtype, operands, "alternating"), also=also, remarks=lambda: _new(module, entries)
    )


def _new(module: host.Module, entries: Iterable[str]) -> list[str]:
    """What was remarked of launches of entries and not yet told."""
    found = [entry for entry in entries if entry in module.remarks and (module, entry) not in _told]
    _told.update((module, entry) for entry in found)
    return [module.remarks[entry] for entry in found]


_told: set[tuple[host.Module, str]] = set()


def _bound(kernel: Kernel, variant: str, dtype: DType, operands: Operands, order: host.Order) -> Bound:
    def prepare(on: Operands) -> Callable[[], object]:
        launches, constants = kernel.launches(variant, on.named(kernel)), kernel.constants_of(on.named(kernel))
        module = _compiled(kernel, dtype, tuple(launch.entry for launch in launches))

        def run() -> None:
            for name, value in constants.items():  # other kernels may share the module
                module.set_constant(name, value)
            for launch in launches:
                grid, block = launch.dims
                try:
                    module.launch(
                        launch.entry, grid, block, launch.args, launch.shared, order, launch.cooperative, launch.cluster
                    )
                except NotOnCpu as refusal:
                    raise _judged(kernel, dtype, refusal) from None

        return run

    return writing(prepare, operands)


def _compiled(kernel: Kernel, dtype: DType, launched: tuple[str, ...] = ()) -> host.Module:
    text = cuda_source.read(kernel.cu)
    names = entry_names.not_plain(text, entry_names.in_all(text, kernel.entries, launched))
    module = _module(text, kernel.cu, tuple(kernel.macros(dtype).items()), names)
    if isinstance(module, (NotOnCpu, CompileError)):
        raise _judged(kernel, dtype, module)
    if isinstance(module, SpecError):
        raise module
    return module


@cache
def _module(
    text: str, cu: Path, macros: tuple[tuple[str, str], ...], entries: tuple[str, ...]
) -> host.Module | NotOnCpu | CompileError | SpecError:
    """The compiled `.cu`, or why there is none."""
    try:
        return host.load(text, name=cu.name, defines=dict(macros), include=cu.parent, entries=entries)
    except (NotOnCpu, CompileError, SpecError) as error:
        return error


def _judged(kernel: Kernel, dtype: DType, refusal: NotOnCpu | CompileError) -> NotOnCpu | CompileError:
    """What to say of a `.cu` that the CPU executor refuses, after nvcc was asked."""
    named, said = isinstance(refusal, NotOnCpu), nvcc.verdict(kernel, dtype)
    if said.error:
        return CompileError(f"{kernel.cu.name} does not compile:\n{said.error}")
    if said.architecture:
        reason = str(refusal) if named else f"the CPU executor cannot take this: {first_error(str(refusal))}"
        return NotOnCpu(f"{reason} (compiled by nvcc for {said.architecture}, not run)", said.seconds)
    if named:
        return NotOnCpu(f"{refusal} (and not compiled: {said.missing})")
    either = "Either the .cu has a mistake, or it uses what the CPU executor lacks"
    return CompileError(f"{refusal}\n{either}. nvcc would tell: {said.missing}")


def first_error(text: str) -> str:
    """The first line of a compiler's message that is an error."""
    lines = text.splitlines()
    return next((line for line in lines if "error:" in line), lines[-1] if lines else "")
