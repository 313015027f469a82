"""Eager CuPy: the formula as array operations, one launch each, with the functions that CuPy has for its parts."""

from __future__ import annotations

from cudalab.backends import _cupy
from cudalab.device.arrays import cupy_missing
from cudalab.device.operands import Bound, Operands
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel

devices = ("cuda",)
timed = True
budget = "composed"
own_indexing = False
library = "cupy"
flushes = _cupy.FLUSHES


def missing(device: str) -> str | None:
    return cupy_missing(device)


def variants(kernel: Kernel) -> tuple[str, ...]:
    return ("",) if kernel.cupy else ()


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    assert kernel.cupy is not None
    _cupy.refuse_foreign(dtype)
    return _cupy.bound(kernel.cupy, operands)
