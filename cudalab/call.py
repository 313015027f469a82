"""Call a kernel like a function: `from cudalab.kernels.gelu import gelu; y = gelu(x)`.

The fastest entry of the `.cu` (the last in the spec) runs on the arrays where they are: on the GPU through PyCUDA
for torch, CuPy and PyCUDA arrays, on the CPU through the host's compiler for NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from cudalab import interop
from cudalab.backends import Operands
from cudalab.dtypes import DType, dtype_of
from cudalab.errors import InputError, Unavailable
from cudalab.interop import DeviceArray
from cudalab.spec import Kernel

Plain = np.ndarray | DeviceArray


def call(kernel: Kernel, arrays: tuple[Any, ...], out: Any = None) -> Any:
    """Run `kernel` on `arrays`, in the order of its reference's parameters; returns `out`, or a new array.

    All arrays are of one library (torch CUDA tensors, CuPy arrays, PyCUDA GPUArrays or NumPy arrays), of one of
    the kernel's dtypes, C-contiguous, and on one device; nothing is copied. The work is ordered on the caller's
    current stream (torch's or CuPy's; the default stream for GPUArray) and not waited for. NumPy arrays are
    done when the call returns. Raises InputError for arguments that do not fit, before anything is launched.
    """
    names = kernel.input_names
    if len(arrays) != len(names):
        count = f"{len(names)} array{'s' * (len(names) > 1)}"
        raise InputError(f"{kernel.name}({', '.join(names)}) takes {count}, got {len(arrays)}")
    library = _library(kernel, (*arrays, *([] if out is None else [out])))
    plain = {name: library.plain(a) for name, a in zip(names, arrays, strict=True)}
    dtype = _check_inputs(kernel, plain)
    shape = kernel.result_shape({name: a.shape for name, a in plain.items()})
    result = library.empty(shape, dtype, arrays[0]) if out is None else out
    target = library.plain(result)
    if target.shape != shape or dtype_of(target) != dtype:
        raise InputError(f"out has {_kind(target)}, {kernel.name} gives {dtype.name} {shape}")
    if isinstance(target, np.ndarray) and not target.flags.writeable:
        raise InputError("out is read-only; pass an array that can be written")
    _check_overlap(kernel, plain, target)
    library.run(kernel, dtype, Operands(plain, target), arrays[0])
    return result


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
    kernel.accepts(first.shape)
    return dtype


def _check_overlap(
    kernel: Kernel, plain: dict[str, np.ndarray | DeviceArray], target: np.ndarray | DeviceArray
) -> None:
    """In place is fine where an element depends on itself alone; any other overlap is a race."""
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


class NumpyArrays:
    """How to take apart, make and run on the arrays of one library. Here NumPy, on the CPU."""

    @staticmethod
    def plain(array: Any) -> Plain:
        return interop.as_plain(array)

    @staticmethod
    def empty(shape: tuple[int, ...], dtype: DType, like: Any) -> Any:
        return np.empty(shape, dtype.numpy)

    @classmethod
    def run(cls, kernel: Kernel, dtype: DType, operands: Operands, like: Any) -> None:
        from cudalab.backends import host

        if reason := host.missing("cpu"):
            raise Unavailable(f"NumPy arrays run through the host's compiler: {reason}")
        host.bind(kernel, list(kernel.entries)[-1], dtype, operands).run()


class _GpuArrays(NumpyArrays):
    """Launches through PyCUDA, ordered with the library's current stream."""

    @classmethod
    def run(cls, kernel: Kernel, dtype: DType, operands: Operands, like: Any) -> None:
        from cudalab.devices import cuda

        if reason := cuda.missing():
            raise Unavailable(f"{kernel.name} cannot be launched: {reason}")
        entry = list(kernel.entries)[-1]
        with cls.current(like) as stream:
            cuda.prepare(kernel, entry, dtype, Operands(operands.inputs, operands.output, stream))()

    @classmethod
    @contextmanager
    def current(cls, like: Any) -> Iterator[Any]:
        """The PyCUDA stream to launch on (None: the default stream), with the device's primary context current.

        PyCUDA cannot wrap a stream of another library; so one of its own waits for that stream before the
        launch, and that stream waits for it afterwards. The default stream needs neither.
        """
        with _context(cls.device(like)) as stream:
            if cls.on_default_stream(like):
                yield None
                return
            cls.wait(stream, like, after=False)
            yield stream
            cls.wait(stream, like, after=True)

    @staticmethod
    def device(like: Any) -> int:
        raise NotImplementedError

    @staticmethod
    def on_default_stream(like: Any) -> bool:
        raise NotImplementedError

    @staticmethod
    def wait(stream: Any, like: Any, after: bool) -> None:
        raise NotImplementedError


class TorchTensors(_GpuArrays):
    """torch tensors: on a GPU in place; on the CPU as the NumPy arrays that they are."""

    @staticmethod
    def plain(array: Any) -> Plain:
        import torch

        plain = interop.as_plain(array)  # refuses what is no tensor
        if array.requires_grad and torch.is_grad_enabled():
            raise InputError("this kernel does not differentiate; pass x.detach(), or call it in torch.no_grad()")
        return plain

    @staticmethod
    def empty(shape: tuple[int, ...], dtype: DType, like: Any) -> Any:
        return like.new_empty(shape)

    @classmethod
    def run(cls, kernel: Kernel, dtype: DType, operands: Operands, like: Any) -> None:
        if like.is_cuda:
            super().run(kernel, dtype, operands, like)
        else:
            NumpyArrays.run(kernel, dtype, operands, like)

    @staticmethod
    def device(like: Any) -> int:
        return int(like.device.index)

    @staticmethod
    def on_default_stream(like: Any) -> bool:
        import torch

        return torch.cuda.current_stream(like.device).cuda_stream == 0

    @staticmethod
    def wait(stream: Any, like: Any, after: bool) -> None:
        import torch

        ours = torch.cuda.ExternalStream(stream.handle, device=like.device)
        theirs = torch.cuda.current_stream(like.device)
        (theirs if after else ours).wait_stream(ours if after else theirs)


class CupyArrays(_GpuArrays):
    @staticmethod
    def empty(shape: tuple[int, ...], dtype: DType, like: Any) -> Any:
        import cupy

        with like.device:
            return cupy.empty(shape, like.dtype)

    @staticmethod
    def device(like: Any) -> int:
        return int(like.device.id)

    @staticmethod
    def on_default_stream(like: Any) -> bool:
        import cupy

        return cupy.cuda.get_current_stream().ptr == 0

    @staticmethod
    def wait(stream: Any, like: Any, after: bool) -> None:
        import cupy

        ours, theirs = interop.cupy_stream(stream.handle), cupy.cuda.get_current_stream()
        (theirs if after else ours).wait_event((ours if after else theirs).record())


class PycudaArrays(_GpuArrays):
    @staticmethod
    def empty(shape: tuple[int, ...], dtype: DType, like: Any) -> Any:
        from pycuda.gpuarray import GPUArray

        return GPUArray(shape, dtype.numpy)

    @classmethod
    @contextmanager
    def current(cls, like: Any) -> Iterator[Any]:
        yield None  # the caller's own context is current, else there would be no GPUArray


LIBRARIES = {"torch": TorchTensors, "cupy": CupyArrays, "pycuda": PycudaArrays, "numpy": NumpyArrays}


@cache
def _stream_of(index: int) -> tuple[Any, Any]:
    """The primary context of GPU number `index` and a stream of ours in it, made once."""
    import pycuda.driver as driver

    driver.init()
    context = driver.Device(index).retain_primary_context()
    context.push()
    try:
        return context, driver.Stream(1)
    finally:
        context.pop()


@contextmanager
def _context(index: int) -> Iterator[Any]:
    context, stream = _stream_of(index)
    context.push()
    try:
        yield stream
    finally:
        context.pop()
