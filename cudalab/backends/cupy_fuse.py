"""`cupy.fuse` of the array formula: CuPy's own fusion, into one kernel for array operations, more around a reduction.

Its kernels load one element at a time; CuPy documents no way to widen the loads or to tune the launch.
"""

from __future__ import annotations

from cudalab.backends import _cupy
from cudalab.base.errors import Unavailable
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
    import cupy

    assert kernel.cupy is not None
    _cupy.refuse_foreign(dtype)
    bound = _cupy.bound(cupy.fuse(kernel.cupy), operands)
    try:
        bound.run()  # the first run traces the formula
    except (TypeError, ValueError, NotImplementedError, AttributeError) as error:
        raise Unavailable(f"cupy.fuse cannot trace this formula: {type(error).__name__}: {error}") from None
    return bound
