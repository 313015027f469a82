"""What a first call does: check its arguments, then run on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from cudalab.base.errors import InputError
from cudalab.call.libraries import LIBRARIES, Done, NumpyArrays, Request
from cudalab.device.arrays import DeviceArray, Plain
from cudalab.spec.dtype import DType, dtype_of
from cudalab.spec.kernel import Kernel


def library_of(kernel: Kernel, arrays: tuple[Any, ...], out: Any = None) -> type[NumpyArrays]:
    """The library of all arrays. Raises InputError unless their number is right and they share a library and device."""
    names = kernel.input_names
    if len(arrays) != len(names):
        count = f"{len(names)} array{'s' * (len(names) > 1)}"
        raise InputError(f"{kernel.name}({', '.join(names)}) takes {count}, got {len(arrays)}")
    every = arrays if out is None else (*arrays, out)
    roots = {type(a).__module__.partition(".")[0] for a in every}
    if len(roots) > 1 or not roots <= set(LIBRARIES):
        types = ", ".join(f"{type(a).__module__}.{type(a).__qualname__}" for a in every)
        raise InputError(f"{kernel.name} takes arrays of one library ({', '.join(LIBRARIES)}), got {types}")
    devices = {str(a.device) for a in every if hasattr(a, "device")}
    if len(devices) > 1:
        raise InputError(f"{kernel.name} takes arrays of one device, got {', '.join(sorted(devices))}")
    return LIBRARIES[roots.pop()]


def run(kernel: Kernel, library: type[NumpyArrays], arrays: tuple[Any, ...], out: Any = None) -> Done:
    """Check the rest and run on these arrays. No program is recorded, differentiated or transformed at this point."""
    plain = {name: library.plain(a) for name, a in zip(kernel.input_names, arrays, strict=True)}
    dtype = _check_inputs(kernel, plain)
    shape = kernel.result_shape({name: a.shape for name, a in plain.items()})
    if out is not None:
        _check_output(kernel, plain, library.plain(out), dtype, shape)
    return library.run(Request(kernel, arrays, out, plain, dtype, shape))


def _check_inputs(kernel: Kernel, plain: dict[str, Plain]) -> DType:
    """The dtype of the inputs. Raises InputError if the kernel lacks it, or if dtypes or shapes do not fit together."""
    first = next(iter(plain.values()))
    dtype = dtype_of(first)
    if dtype.name not in kernel.dtypes:
        raise InputError(f"{kernel.name} has no {dtype.name}; convert to one of {', '.join(kernel.dtypes)}")
    for name, array in plain.items():
        if dtype_of(array).floating and dtype.floating and dtype_of(array) != dtype:
            raise InputError(f"{name} is {_kind(array)}, the first array {_kind(first)}; convert one of them")
        if kernel.pointwise and (array.shape != first.shape or dtype_of(array) != dtype):
            raise InputError(f"{name} is {_kind(array)}, the first array {_kind(first)}; they must agree")
    for name, array in plain.items():
        _check_alignment(kernel, name, name, array)
    kernel.accepts_call({name: a.shape for name, a in plain.items()})
    return dtype


def _check_output(kernel: Kernel, plain: dict[str, Plain], target: Plain, dtype: DType, shape: tuple[int, ...]) -> None:
    """Raise InputError if `out` does not fit. A pointwise kernel may write over an input; other overlaps are races."""
    if target.shape != shape or dtype_of(target) != dtype:
        raise InputError(f"out has {_kind(target)}, {kernel.name} gives {dtype.name} {shape}")
    if isinstance(target, np.ndarray) and not target.flags.writeable:
        raise InputError("out is read-only; pass an array that can be written")
    _check_alignment(kernel, "out", kernel.output, target)
    start, stop = _span(target)
    for name, array in plain.items():
        first, last = _span(array)
        apart = last <= start or stop <= first
        if not apart and not (kernel.pointwise and (first, last) == (start, stop)):
            raise InputError(f"out overlaps {name!r} in memory; give it memory of its own")


def _check_alignment(kernel: Kernel, what: str, name: str, array: Plain) -> None:
    """Raise InputError for an array off the alignment that the spec asks for.

    On the CPU no more is asked for than its allocators give, 16 bytes, which is the width of the widest access there.
    """
    least = min(kernel.alignment(name), 256 if isinstance(array, DeviceArray) else 16)
    start, _ = _span(array)
    if array.nbytes and start % least:
        raise InputError(
            f"{what} starts {start % least} bytes after a multiple of {least}, as a slice does, and {kernel.name} "
            f"takes arrays aligned to {least} bytes; pass a copy of it, such as x.clone() of a tensor, or else x.copy()"
        )


def _span(array: Plain) -> tuple[int, int]:
    start = array.ptr if isinstance(array, DeviceArray) else array.ctypes.data
    return start, start + array.nbytes


def _kind(array: Plain) -> str:
    return f"{dtype_of(array).name} {tuple(array.shape)}"
