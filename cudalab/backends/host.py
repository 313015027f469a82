"""The same `.cu`, compiled by the host's C++ compiler and run on the CPU. It checks; it is never timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

from cudalab import host, source
from cudalab.backends import Bound, Operands, writing
from cudalab.dtypes import DType
from cudalab.spec import Kernel

devices = ("cpu",)
timed = False
composed = False
own_indexing = True


def missing(device: str) -> str | None:
    return host.compiler_missing()


def variants(kernel: Kernel) -> tuple[str, ...]:
    return tuple(kernel.entries)


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    module = _module(source.read(kernel.cu), kernel.cu, dtype)

    def prepare(on: Operands, order: host.Order) -> Callable[[], object]:
        launch = kernel.launch(variant, on.named(kernel))
        grid, block = launch.dims
        return lambda: module.launch(variant, grid, block, launch.args, launch.shared, order)

    def bound(order: host.Order) -> Bound:
        return writing(lambda on: prepare(on, order), operands)

    # A race may be forgiven by one order of the threads; CUDA promises none.
    others = {"forward": bound("forward"), "reverse": bound("reverse"), "shuffled": bound(operands.seed)}
    return replace(bound("alternating"), also={f"with blocks and threads in {o} order": b for o, b in others.items()})


@cache
def _module(text: str, cu: Path, dtype: DType) -> host.Module:
    return host.load(text, name=cu.name, defines=source.defines(dtype), include=cu.parent)
