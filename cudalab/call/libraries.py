"""How to take apart, make and run on the arrays of each library."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from cudalab.base.errors import SpecError, Unavailable
from cudalab.device.arrays import Plain, as_plain
from cudalab.device.operands import Operands
from cudalab.spec.dtype import DType, dtype_of
from cudalab.spec.kernel import Kernel, Shape


@dataclass(frozen=True)
class Request:
    """A call whose arguments have been checked."""

    kernel: Kernel
    arrays: tuple[Any, ...]
    out: Any  # None: make a new array
    plain: dict[str, Plain]  # the same inputs, by name
    dtype: DType  # of the output
    shape: Shape

    @property
    def entry(self) -> str:
        return self.kernel.entry_of_call(self.plain)


class NumpyArrays:
    """NumPy's, on the CPU; the other libraries differ in what they override."""

    @staticmethod
    def hands_over(arrays: tuple[Any, ...]) -> bool:
        """Whether the library itself makes the call, which it differentiates, records or transforms."""
        return False

    @staticmethod
    def handed_over(kernel: Kernel, arrays: tuple[Any, ...], out: Any) -> Any:
        raise NotImplementedError

    @staticmethod
    def plain(array: Any) -> Plain:
        return as_plain(array)

    @staticmethod
    def empty(shape: Shape, dtype: DType, like: Any) -> Any:
        return np.empty(shape, dtype.numpy)

    @classmethod
    def run(cls, asked: Request) -> Any:
        """Run on the arrays; returns `out`, or a new array."""
        return cls.through_host(asked)

    @classmethod
    def through_host(cls, asked: Request) -> Any:
        from cudalab.backends import host

        if reason := host.missing("cpu"):
            raise Unavailable(f"arrays on the CPU run through the host's compiler: {reason}")
        result = cls.empty(asked.shape, asked.dtype, asked.arrays[0]) if asked.out is None else asked.out
        host.bind(asked.kernel, asked.entry, asked.dtype, Operands(asked.plain, cls.plain(result))).run()
        return result


class GpuArrays(NumpyArrays):
    """Launches on the caller's own stream, wherever that is from."""

    @classmethod
    def run(cls, asked: Request) -> Any:
        return cls.launched(asked)

    @classmethod
    def launched(cls, asked: Request) -> Any:
        from cudalab.device import cuda, launch

        if reason := cuda.missing():
            raise Unavailable(f"{asked.kernel.name} cannot be launched: {reason}")
        like = asked.arrays[0]
        with cls.on_device_of(like):
            result = cls.empty(asked.shape, asked.dtype, like) if asked.out is None else asked.out
            named: dict[str, Any] = {**asked.plain, asked.kernel.output: cls.plain(result)}
            prepared = launch.for_call(asked.kernel, asked.entry, asked.dtype, named, cls.context(like))
            if prepared:
                prepared(cls.stream(like), *(array.ptr for array in named.values()))
        asked.kernel._calls.remember(asked.arrays, asked.out, result, prepared)
        return result

    @staticmethod
    def on_device_of(like: Any) -> AbstractContextManager[Any]:
        """Entered for a call, where a library allocates on its current device and knows the streams of that alone."""
        return nullcontext()

    @staticmethod
    def device(like: Any) -> int:
        raise NotImplementedError

    @staticmethod
    def stream(like: Any) -> int:
        """The handle of the stream that is current for the caller."""
        raise NotImplementedError

    @classmethod
    def context(cls, like: Any) -> int:
        from cudalab.device import driver

        return driver.primary_context(cls.device(like))


class TorchTensors(GpuArrays):
    """torch tensors: on a GPU in place; on the CPU the spec's torch form, or the host's compiler if it has none."""

    @staticmethod
    def hands_over(arrays: tuple[Any, ...]) -> bool:
        from cudalab.call import torch_operator

        return torch_operator.special(arrays) or torch_operator.differentiates(arrays)

    @staticmethod
    def handed_over(kernel: Kernel, arrays: tuple[Any, ...], out: Any) -> Any:
        from cudalab.call import torch_operator

        return torch_operator.call(kernel, arrays, out)

    @staticmethod
    def empty(shape: Shape, dtype: DType, like: Any) -> Any:
        return like.new_empty(shape)

    @classmethod
    def run(cls, asked: Request) -> Any:
        if form := None if cls.on_gpu(asked.arrays[0]) else asked.kernel.torch_native or asked.kernel.torch:
            from cudalab.call import torch_operator

            with torch_operator.unchanged(asked.arrays[0]):
                result = _fitting(form(*asked.arrays), asked)
            return result if asked.out is None else asked.out.copy_(result)
        result = cls.launched(asked) if cls.on_gpu(asked.arrays[0]) else cls.through_host(asked)
        if asked.out is not None:
            from torch.autograd.graph import increment_version

            increment_version(asked.out)  # so that autograd knows of it
        return result

    @staticmethod
    def on_gpu(tensor: Any) -> bool:
        return bool(tensor.is_cuda)

    @staticmethod
    def device(like: Any) -> int:
        return int(like.device.index)

    @staticmethod
    def stream(like: Any) -> int:
        import torch

        return int(torch.cuda.current_stream(like.device).cuda_stream)


def _fitting(result: Any, asked: Request) -> Any:
    """What a torch form gave, if it is what the kernel gives: a contiguous tensor with memory of its own."""
    if tuple(result.shape) != asked.shape or dtype_of(result) != asked.dtype:
        got, due = f"{dtype_of(result).name} {tuple(result.shape)}", f"{asked.dtype.name} {asked.shape}"
        raise SpecError(f"{asked.kernel.file}: its torch form gives {got} where the kernel gives {due}")
    inputs = {a.untyped_storage().data_ptr() for a in asked.arrays}
    return result.clone() if result.untyped_storage().data_ptr() in inputs else result.contiguous()


class CupyArrays(GpuArrays):
    @staticmethod
    def on_device_of(like: Any) -> AbstractContextManager[Any]:
        return like.device

    @staticmethod
    def empty(shape: Shape, dtype: DType, like: Any) -> Any:
        import cupy

        return cupy.empty(shape, like.dtype)

    @staticmethod
    def device(like: Any) -> int:
        return int(like.device.id)

    @staticmethod
    def stream(like: Any) -> int:
        import cupy

        return int(cupy.cuda.get_current_stream().ptr)


class PycudaArrays(GpuArrays):
    """PyCUDA's GPUArrays: of the context that is current, on the default stream."""

    @staticmethod
    def empty(shape: Shape, dtype: DType, like: Any) -> Any:
        from pycuda.gpuarray import GPUArray

        return GPUArray(shape, dtype.numpy, like.allocator)  # which may be a pool's

    @staticmethod
    def stream(like: Any) -> int:
        return 0

    @classmethod
    def context(cls, like: Any) -> int:
        from cudalab.device import driver

        return driver.current_context()


LIBRARIES = {"torch": TorchTensors, "cupy": CupyArrays, "pycuda": PycudaArrays, "numpy": NumpyArrays}
