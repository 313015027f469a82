"""Call a kernel like a function: `from cudalab.kernels.gelu import gelu; y = gelu(x)`.

The fastest entry of the `.cu` (the last in the spec, or that which its `called` names) runs on the arrays where they
are: on a GPU for torch, CuPy and PyCUDA arrays, on the CPU through the host's compiler for NumPy arrays. torch tensors
on the CPU take the spec's torch form. Here is what a first call does; what a second one with arrays of the same kind
does is in `cudalab.call.fast_path`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cudalab.base.errors import InputError
from cudalab.call.libraries import LIBRARIES, NumpyArrays, Request
from cudalab.device.arrays import DeviceArray, Plain
from cudalab.spec.dtype import DType, dtype_of
from cudalab.spec.kernel import Kernel


def call(kernel: Kernel, arrays: tuple[Any, ...], out: Any = None) -> Any:
    """Run `kernel` on `arrays`, in the order of its reference's parameters; returns `out`, or a new array.

    All arrays are of one library (torch tensors, CuPy arrays, PyCUDA GPUArrays or NumPy arrays), of one of the
    kernel's dtypes, C-contiguous, and on one device; nothing is copied. The work is ordered on the caller's current
    stream (torch's or CuPy's; the default stream for GPUArray) and not waited for. NumPy arrays and tensors on the CPU
    are done when the call returns. Tensors that require a gradient get one if the spec has `backward`. Raises
    InputError for arguments that do not fit, before anything is launched.
    """
    names = kernel.input_names
    if len(arrays) != len(names):
        count = f"{len(names)} array{'s' * (len(names) > 1)}"
        raise InputError(f"{kernel.name}({', '.join(names)}) takes {count}, got {len(arrays)}")
    library = _library(kernel, (*arrays, *([] if out is None else [out])))
    if library.hands_over(arrays if out is None else (*arrays, out)):
        return library.handed_over(kernel, arrays, out)
    return run(kernel, arrays, out)


def run(kernel: Kernel, arrays: tuple[Any, ...], out: Any = None) -> Any:
    """Check everything, then run on these very arrays, whatever is recorded, traced or transformed around the call."""
    library = _library(kernel, (*arrays, *([] if out is None else [out])))
    plain = {name: library.plain(a) for name, a in zip(kernel.input_names, arrays, strict=True)}
    dtype = _check_inputs(kernel, plain)
    shape = kernel.result_shape({name: a.shape for name, a in plain.items()})
    if out is not None:
        _check_output(kernel, plain, library.plain(out), dtype, shape)
    return library.run(Request(kernel, arrays, out, plain, dtype, shape))


def _library(kernel: Kernel, arrays: tuple[Any, ...]) -> type[NumpyArrays]:
    roots = {type(a).__module__.partition(".")[0] for a in arrays}
    if len(roots) > 1 or not roots <= set(LIBRARIES):
        types = ", ".join(f"{type(a).__module__}.{type(a).__qualname__}" for a in arrays)
        raise InputError(f"{kernel.name} takes arrays of one library ({', '.join(LIBRARIES)}), got {types}")
    devices = {str(a.device) for a in arrays if hasattr(a, "device")}
    if len(devices) > 1:
        raise InputError(f"{kernel.name} takes arrays of one device, got {', '.join(sorted(devices))}")
    return LIBRARIES[roots.pop()]


def _check_inputs(kernel: Kernel, plain: dict[str, Plain]) -> DType:
    """The one dtype of the inputs, which the kernel has; a pointwise kernel's shapes are all the same."""
    first = next(iter(plain.values()))
    dtype = dtype_of(first)
    if dtype.name not in kernel.dtypes:
        raise InputError(f"{kernel.name} has no {dtype.name}; convert to one of {', '.join(kernel.dtypes)}")
    for name, array in plain.items():
        if dtype_of(array).floating and dtype.floating and dtype_of(array) != dtype:
            raise InputError(f"{name} is {_kind(array)}, the first array {_kind(first)}; convert one of them")
        if kernel.pointwise and (array.shape != first.shape or dtype_of(array) != dtype):
            raise InputError(f"{name} is {_kind(array)}, the first array {_kind(first)}; they must agree")
    kernel.accepts_call({name: a.shape for name, a in plain.items()})
    return dtype


def _check_output(kernel: Kernel, plain: dict[str, Plain], target: Plain, dtype: DType, shape: tuple[int, ...]) -> None:
    """In place is fine where an element depends on itself alone; any other overlap is a race."""
    if target.shape != shape or dtype_of(target) != dtype:
        raise InputError(f"out has {_kind(target)}, {kernel.name} gives {dtype.name} {shape}")
    if isinstance(target, np.ndarray) and not target.flags.writeable:
        raise InputError("out is read-only; pass an array that can be written")
    start, stop = _span(target)
    for name, array in plain.items():
        first, last = _span(array)
        apart = last <= start or stop <= first
        if not apart and not (kernel.pointwise and (first, last) == (start, stop)):
            raise InputError(f"out overlaps {name!r} in memory; give it memory of its own")


def _span(array: Plain) -> tuple[int, int]:
    start = array.ptr if isinstance(array, DeviceArray) else array.ctypes.data
    return start, start + array.nbytes


def _kind(array: Plain) -> str:
    return f"{dtype_of(array).name} {tuple(array.shape)}"
