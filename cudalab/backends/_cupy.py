"""What the backends that run CuPy share: arrays on the operands' memory, on the operands' stream."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from cudalab.backends._torch import with_scalars
from cudalab.base.errors import Unavailable
from cudalab.device.arrays import ForeignStream, to_cupy
from cudalab.device.operands import Bound, Operands, returning
from cudalab.spec.dtype import DType, foreign
from cudalab.spec.kernel import Kernel

# CuPy appends it to the options that it is given, and of an option given twice NVRTC and nvcc take the last value.
FLUSHES = "CuPy compiles with -ftz=true, whatever options say"


def use_stream(operands: Operands) -> None:
    """From here on CuPy works on the operands' stream."""
    import cupy

    cupy.cuda.Device(operands.device).use()
    stream(operands.stream.handle).use()


def stream(handle: int) -> Any:
    """Return a stream of another library as CuPy's own."""
    import cupy

    if not hasattr(cupy.cuda.Stream, "from_external"):  # before CuPy 14
        return cupy.cuda.ExternalStream(handle)
    return cupy.cuda.Stream.from_external(ForeignStream(handle))


def arrays(operands: Operands) -> list[Any]:
    """The inputs as CuPy arrays; from here on CuPy works on the operands' stream."""
    use_stream(operands)
    return [to_cupy(a) for a in operands.inputs.values()]


def pool() -> Callable[[], AbstractContextManager[object]]:
    """For `Bound.pool`: a memory pool, so that no later array reuses memory that a captured graph writes."""
    import cupy

    own = cupy.cuda.MemoryPool()
    return lambda: cupy.cuda.using_allocator(own.malloc)


def bound(function: Callable[..., Any], operands: Operands) -> Bound:
    """A function of CuPy arrays, and of scalars by name, that returns its result."""
    return returning(with_scalars(function, operands), arrays, operands, pool())


def options(kernel: Kernel, dtype: DType) -> tuple[str, ...]:
    """Options with which CuPy compiles a kernel's `.cu` for one element type."""
    return (
        *kernel.flags,
        *(f"-D{k}={v}" for k, v in kernel.macros(dtype).items()),
        f"-I{kernel.cu.parent}",
    )


def refuse_foreign(dtype: DType) -> None:
    """Raise Unavailable: CuPy's array operations and ElementwiseKernel have no bfloat16 and no float8."""
    if foreign(dtype.numpy):
        raise Unavailable(f"CuPy's array operations have no {dtype.name}; cupy_raw runs it")
