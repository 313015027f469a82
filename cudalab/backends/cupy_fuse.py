"""`cupy.fuse` of the array formula: CuPy's own fusion into one kernel."""

from __future__ import annotations

from cudalab.base.errors import Unavailable
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
    import cupy

    assert kernel.cupy is not None
    interop.refuse_bfloat16(dtype)
    bound = returning(cupy.fuse(kernel.cupy), interop.to_cupy_all, operands, interop.cupy_pool())
    try:
        bound.run()  # which traces the formula
    except (TypeError, ValueError, NotImplementedError, AttributeError) as error:
        raise Unavailable(f"cupy.fuse cannot trace this formula: {type(error).__name__}: {error}") from None
    return bound
