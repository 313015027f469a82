"""The spec's one-line expression as a `cupy.ElementwiseKernel`, with the `.cu`'s device functions in reach.

A thread loads one element at a time and CuPy chooses the launch; it documents no way to widen the loads.
"""

from __future__ import annotations

from collections.abc import Callable

from cudalab.backends import _cupy
from cudalab.device import cuda
from cudalab.device.arrays import cupy_missing, to_cupy
from cudalab.device.operands import Bound, Operands, writing
from cudalab.spec import cuda_source, entry_names
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel

devices = ("cuda",)
timed = True
budget = "peers"
own_indexing = True
library = "cupy"
flushes = _cupy.FLUSHES


def missing(device: str) -> str | None:
    return cupy_missing(device)


def variants(kernel: Kernel) -> tuple[str, ...]:
    return ("",) if kernel.elementwise else ()


def bind(kernel: Kernel, variant: str, dtype: DType, operands: Operands) -> Bound:
    import cupy

    _cupy.refuse_foreign(dtype)
    compiled = cupy.ElementwiseKernel(
        ", ".join(f"{dtype.name} {n}" for n in operands.inputs),
        f"{dtype.name} {kernel.output}",
        f"{kernel.output} = {kernel.elementwise}",
        f"{kernel.name}_elementwise",
        preamble=entry_names.source(cuda_source.read(kernel.cu), kernel.cu.name),
        options=_cupy.options(kernel, dtype),
    )

    def prepare(on: Operands) -> Callable[[], object]:
        arrays = [*_cupy.arrays(on), to_cupy(on.output)]
        return lambda: compiled(*arrays)

    def as_users_call(on: Operands) -> Callable[[], object]:
        arrays = _cupy.arrays(on)
        return lambda: compiled(*arrays)

    return writing(prepare, operands, as_users_call, cuda.kept_bytes(kernel, dtype))
