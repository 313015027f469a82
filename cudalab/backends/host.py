"""The same `.cu`, compiled by the host's C++ compiler and run on the CPU. It checks; it is never timed."""

from __future__ import annotations

from cudalab import host, source
from cudalab.backends import Bound, Operands
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
    module = host.load(
        source.read(kernel.cu),
        name=kernel.cu.name,
        defines=source.defines(dtype),
        include=kernel.cu.parent,
    )
    launch = kernel.launch(variant, operands.named(kernel))
    grid, block = launch.dims

    def run() -> None:
        module.launch(variant, grid, block, launch.args, launch.shared)

    return Bound(run, lambda: operands.output)
