"""How each library's arrays are read, made and run on."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from cudalab.backends import host
from cudalab.base.errors import SpecError, Unavailable
from cudalab.device import cuda, driver, launch
from cudalab.device.arrays import Plain, as_plain
from cudalab.device.launch import Prepared
from cudalab.device.operands import Operands
from cudalab.spec import tuned
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


@dataclass(frozen=True)
class Done:
    """A call that was made."""

    result: Any
    on_gpu: bool = False  # set if an equal call can be repeated by a launch alone
    prepared: Prepared | None = None  # that launch; None: there is nothing to launch


class NumpyArrays:
    """NumPy arrays, on the CPU. The other libraries override what differs."""

    @staticmethod
    def plain(array: Any) -> Plain:
        return as_plain(array)

    @staticmethod
    def empty(shape: Shape, dtype: DType, like: Any) -> Any:
        return np.empty(shape, dtype.numpy)

    @classmethod
    def run(cls, asked: Request) -> Done:
        return cls.run_on_host(asked)

    @classmethod
    def run_on_host(cls, asked: Request) -> Done:
        if reason := host.missing("cpu"):
            raise Unavailable(f"arrays on the CPU run through the host's compiler: {reason}")
        result = cls.empty(asked.shape, asked.dtype, asked.arrays[0]) if asked.out is None else asked.out
        entry = asked.kernel.entry_of_call(asked.plain)
        host.bind(asked.kernel, entry, asked.dtype, Operands(asked.plain, cls.plain(result))).run()
        return Done(result)


class GpuArrays(NumpyArrays):
    """Arrays on a GPU: launches go to the caller's current stream."""

    @classmethod
    def run(cls, asked: Request) -> Done:
        return cls.launch(asked)

    @classmethod
    def launch(cls, asked: Request) -> Done:
        if reason := cuda.missing():
            raise Unavailable(f"{asked.kernel.name} cannot be launched: {reason}")
        like = asked.arrays[0]
        with cls.on_device_of(like):
            result = cls.empty(asked.shape, asked.dtype, like) if asked.out is None else asked.out
            named: dict[str, Any] = {**asked.plain, asked.kernel.output: cls.plain(result)}
            context, entry = cls.context(like), asked.kernel.entry_of_call(asked.plain)
            kernel = tuned.for_call(asked.kernel, entry, asked.dtype, driver.card(context))
            prepared = launch.for_call(kernel, entry, asked.dtype, named, context)
            if prepared:
                prepared(cls.stream(like), *(array.ptr for array in named.values()))
        return Done(result, on_gpu=True, prepared=prepared)

    @staticmethod
    def on_device_of(like: Any) -> AbstractContextManager[Any]:
        """A context for a call: some libraries allocate on their current device, and know the streams of that alone."""
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
        return driver.primary_context(cls.device(like))


class TorchTensors(GpuArrays):
    """torch tensors: launched on a GPU; on the CPU the spec's torch form, or the host's compiler if it has none."""

    @staticmethod
    def empty(shape: Shape, dtype: DType, like: Any) -> Any:
        return like.new_empty(shape)

    @classmethod
    def run(cls, asked: Request) -> Done:
        if cls.on_gpu(asked.arrays[0]):
            done = cls.launch(asked)
        elif form := asked.kernel.torch_native or asked.kernel.torch:
            with without_autocast(asked.arrays[0]):
                result = _fitting(form(*asked.arrays), asked)
            return Done(result if asked.out is None else asked.out.copy_(result))
        else:
            done = cls.run_on_host(asked)
        if asked.out is not None:
            from torch.autograd.graph import increment_version

            increment_version(asked.out)  # so that autograd notices the write
        return done

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


def without_autocast(tensor: Any) -> AbstractContextManager[Any]:
    """A context in which a torch form gives the tensors' own dtype, as a kernel does."""
    import torch

    kind = tensor.device.type
    cast = kind in ("cpu", "cuda") and torch.is_autocast_enabled(kind)
    return torch.autocast(kind, enabled=False) if cast else nullcontext()


def _fitting(result: Any, asked: Request) -> Any:
    """The result of a torch form as a contiguous tensor with memory of its own. SpecError if its kind is wrong."""
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
    """PyCUDA's GPUArrays, of the current context, on the default stream."""

    @staticmethod
    def empty(shape: Shape, dtype: DType, like: Any) -> Any:
        from pycuda.gpuarray import GPUArray

        return GPUArray(shape, dtype.numpy, like.allocator)  # it may be a memory pool

    @staticmethod
    def stream(like: Any) -> int:
        return 0

    @classmethod
    def context(cls, like: Any) -> int:
        return driver.current_context()


LIBRARIES = {"torch": TorchTensors, "cupy": CupyArrays, "pycuda": PycudaArrays, "numpy": NumpyArrays}
