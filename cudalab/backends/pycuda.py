"""The `.cu` through PyCUDA's SourceModule: every entry, launched with arguments packed once."""

from __future__ import annotations

from cudalab.backends import Bound, Operands, writing
from cudalab.devices import cuda
from cudalab.dtypes import DType
from cudalab.spec import Kernel

devices = ("cuda",)
timed = True
composed = False
own_indexing = True


def missing(device: str) -> str | None:
    return cuda.missing()


def variants(kernel: Kernel) -> tuple[str, ...]:
    return tuple(kernel.entries)


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    return writing(lambda on: cuda.prepare(kernel, variant, dtype, on), operands)
