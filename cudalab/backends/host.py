"""The `.cu`, compiled by the host's C++ compiler and run on the CPU. It checks and is never timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

from cudalab import host
from cudalab.device.operands import Bound, Operands, writing
from cudalab.spec import cuda_source
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
    return replace(_bound(kernel, variant, dtype, operands, "alternating"), also=also)


def _bound(kernel: Kernel, variant: str, dtype: DType, operands: Operands, order: host.Order) -> Bound:
    module = _module(cuda_source.read(kernel.cu), kernel.cu, tuple(kernel.macros(dtype).items()))

    def prepare(on: Operands) -> Callable[[], object]:
        launch = kernel.launch(variant, on.named(kernel))
        grid, block = launch.dims
        return lambda: module.launch(variant, grid, block, launch.args, launch.shared, order)

    return writing(prepare, operands)


@cache
def _module(text: str, cu: Path, macros: tuple[tuple[str, str], ...]) -> host.Module:
    return host.load(text, name=cu.name, defines=dict(macros), include=cu.parent)
