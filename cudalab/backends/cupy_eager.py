"""Eager CuPy: the formula as array operations, one launch each."""

from __future__ import annotations

from cudalab.device import interop
from cudalab.device.operands import Bound, Operands, returning
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel

devices = ("cuda",)
timed = True
budget = "composed"
own_indexing = False


def missing(device: str) -> str | None:
    return interop.cupy_missing(device)


def variants(kernel: Kernel) -> tuple[str, ...]:
    return ("",) if kernel.cupy else ()


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    assert kernel.cupy is not None
    interop.refuse_bfloat16(dtype)
    return returning(kernel.cupy, interop.to_cupy_all, operands, interop.cupy_pool())
