"""How each library's arrays are read, made and run on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from cudalab.backends import host
from cudalab.base.errors import NotOnCpu, SpecError, Unavailable
from cudalab.device import cuda, driver, launch
from cudalab.device.arrays import Plain, as_plain
from cudalab.device.launch import InOrder, Prepared
from cudalab.device.operands import Operands, Written, every, output_of
from cudalab.spec import find, tuned
from cudalab.spec.array_info import infos
from cudalab.spec.dtype import DTYPES, DType, dtype_of
from cudalab.spec.kernel import Kernel, Shape
from cudalab.spec.reference import plain


@dataclass(frozen=True)
class Request:
    """A call whose arguments have been checked."""

    kernel: Kernel
    arrays: tuple[Any, ...]
    out: Any  # an array, or a tuple of them; None: make new ones
    plain: dict[str, Plain]  # the same inputs, by name
    dtype: DType  # of the kernel
    scalars: dict[str, Any]  # by name, rounded


@dataclass(frozen=True)
class Done:
    """A call that was made."""

    result: Any
    on_gpu: bool = False  # set if an equal call can be repeated by a launch alone
    prepared: Prepared | InOrder | None = None  # that launch; None: there is nothing to launch
    made: tuple[Any, ...] = ()  # outputs that are no inputs, given or allocated, then the workspace
    scalars: Mapping[str, Any] = field(default_factory=dict)  # every one, rounded
    again: Callable[[Mapping[str, Any]], Prepared | InOrder | None] | None = None  # the launch with other scalars


class NumpyArrays:
    """NumPy arrays, on the CPU. The other libraries override what differs."""

    @staticmethod
    def plain(array: Any) -> Plain:
        return as_plain(array)

    @staticmethod
    def empty(shape: Shape, dtype: DType, like: Any) -> Any:
        return np.empty(shape, dtype.numpy)

    @staticmethod
    def fill(array: Any, value: float) -> None:
        array.fill(value)

    @classmethod
    def outputs(cls, asked: Request) -> tuple[Any, Operands, tuple[Any, ...]]:
        """What the call returns, the operands of its launch, and those given or made: outputs, then a workspace."""
        kernel, made = asked.kernel, dict[str, Any]()
        given = dict(zip(own_outputs(kernel), as_tuple(asked.out), strict=False))

        def make(name: str, shape: Shape, kind: np.dtype) -> Plain:
            made[name] = array = given[name] if name in given else cls.empty(shape, DTYPES[kind.name], asked.arrays[0])
            if (fill := (kernel.outs.get(name) or kernel.workspace[name]).fill) is not None:
                cls.fill(array, fill)
            return cls.plain(array)

        output = output_of(kernel, asked.dtype, asked.plain, make, asked.scalars)
        inputs = dict(zip(kernel.input_names, asked.arrays, strict=True))
        results = tuple(inputs[name] if name in kernel.in_place else made[name] for name in kernel.outs)
        operands = Operands(asked.plain, output, scalars=asked.scalars)
        return results[0] if len(results) == 1 else results, operands, tuple(made.values())

    @classmethod
    def run(cls, asked: Request) -> Done:
        return cls.run_on_host(asked)

    @classmethod
    def run_on_host(cls, asked: Request) -> Done:
        if reason := host.missing("cpu"):
            raise Unavailable(f"arrays on the CPU run through the host's compiler: {reason}")
        result, operands, _ = cls.outputs(asked)
        copies = _Aligned(asked.kernel, operands)
        host.alone(asked.kernel, asked.kernel.entry_of_call(asked.plain), asked.dtype, copies.operands).run()
        copies.write_back()
        return Done(result)


class _Aligned:
    """Operands on the CPU whose arrays start where the spec asks for it: NumPy's allocator promises 16 bytes alone."""

    def __init__(self, kernel: Kernel, operands: Operands) -> None:
        self._copies: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # by the identity of the array, with its copy
        output = operands.output
        if isinstance(output, Written):
            arrays = tuple(
                self._of(array, kernel.alignment(n)) for n, array in zip(output.names, output.arrays, strict=True)
            )
            output = replace(output, arrays=arrays)
        else:
            output = self._of(output, kernel.alignment(next(iter(kernel.outs))))
        inputs = {name: self._of(array, kernel.alignment(name)) for name, array in operands.inputs.items()}
        self.operands = replace(operands, inputs=inputs, output=output)
        self._written = [id(array) for array, _ in every(operands.output)]

    def _of(self, array: np.ndarray, least: int) -> np.ndarray:
        if not array.nbytes or array.ctypes.data % least == 0:
            return array
        if id(array) not in self._copies:
            raw = np.empty(array.nbytes + least, np.uint8)
            start = -raw.ctypes.data % least
            copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
            copy[...] = array
            self._copies[id(array)] = array, copy
        return self._copies[id(array)][1]

    def write_back(self) -> None:
        """Copy what the kernel wrote to where it belongs."""
        for at in self._written:
            if at in self._copies:
                array, copy = self._copies[at]
                array[...] = copy


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
            result, operands, made = cls.outputs(asked)
            named = {n: a for n, a in operands.by_name(asked.kernel).items() if n not in asked.scalars}
            context, entry = cls.context(like), asked.kernel.entry_of_call(asked.plain)
            kernel = tuned.for_call(asked.kernel, entry, asked.dtype, driver.card(context))
            prepared = launch.for_call(kernel, entry, asked.dtype, named, context, asked.scalars)
            if prepared:
                numbers = (asked.scalars[name].tobytes() for name in prepared.passed)
                prepared(cls.stream(like), *(array.ptr for array in named.values()), *numbers)
        again = partial(launch.again, prepared, kernel, entry, infos(named)) if prepared else None
        return Done(result, True, prepared, made, asked.scalars, again)

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
    """torch tensors: launched on a GPU. On the CPU g++ compiles the `.cu`; the lab's own kernels run their torch form.

    Where g++ cannot compile the `.cu`, the torch form runs, with a warning.
    """

    @staticmethod
    def empty(shape: Shape, dtype: DType, like: Any) -> Any:
        import torch

        return like.new_empty(shape, dtype=getattr(torch, dtype.name))

    @staticmethod
    def fill(array: Any, value: float) -> None:
        array.fill_(value)

    @classmethod
    def run(cls, asked: Request) -> Done:
        if cls.on_gpu(asked.arrays[0]):
            done = cls.launch(asked)
        elif form := form_on_cpu(asked.kernel):
            return cls.run_form(asked, form)
        else:
            try:
                done = cls.run_on_host(asked)
            except (NotOnCpu, Unavailable) as error:
                if not (form := form_of(asked.kernel)):
                    raise
                _warn(asked.kernel, error)
                return cls.run_form(asked, form)
        written = [a for n, a in zip(asked.kernel.input_names, asked.arrays, strict=True) if n in asked.kernel.in_place]
        if asked.out is not None or written:
            from torch.autograd.graph import increment_version

            for array in (*as_tuple(asked.out), *written):
                increment_version(array)  # so that autograd notices the write
        return done

    @staticmethod
    def run_form(asked: Request, form: Callable[..., Any]) -> Done:
        """Run the spec's torch form in place of the `.cu`."""
        with without_autocast(asked.arrays[0]):
            found = as_tuple(form(*asked.arrays, **plain(asked.scalars)))
        results = tuple(_fitting(one, asked, name) for one, name in zip(found, asked.kernel.outs, strict=True))
        if asked.out is not None:
            for target, result in zip(as_tuple(asked.out), results, strict=True):
                target.copy_(result)
            return Done(asked.out)
        return Done(results[0] if len(results) == 1 else results)

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


def form_of(kernel: Kernel) -> Callable[..., Any] | None:
    """The spec's form in PyTorch; None if it has none, or updates an input in place, which no form does."""
    return None if kernel.in_place else kernel.torch_native or kernel.torch


def form_on_cpu(kernel: Kernel) -> Callable[..., Any] | None:
    """The form that a tensor on the CPU gets: of the lab's own kernels, whose modules behave as PyTorch's do there."""
    return form_of(kernel) if find.of_lab(kernel) else None


_warned: set[str] = set()  # files of kernels


def _warn(kernel: Kernel, error: Exception) -> None:
    """Say once that a result is PyTorch's."""
    if kernel.file not in _warned:
        _warned.add(kernel.file)
        warnings.warn(
            f"{kernel.name} of a tensor on the CPU is computed by the spec's torch form, not by the .cu: {error}",
            RuntimeWarning, stacklevel=2,
        )  # fmt: skip


def without_autocast(tensor: Any) -> AbstractContextManager[Any]:
    """A context in which a torch form gives the tensors' own dtype, as a kernel does."""
    import torch

    kind = tensor.device.type
    cast = kind in ("cpu", "cuda") and torch.is_autocast_enabled(kind)
    return torch.autocast(kind, enabled=False) if cast else nullcontext()


def own_outputs(kernel: Kernel) -> tuple[str, ...]:
    """The outputs that are no inputs: those that a call gives or allocates."""
    return tuple(name for name in kernel.outs if name not in kernel.in_place)


def as_tuple(arrays: Any) -> tuple[Any, ...]:
    """The arrays of `out`, or of a result: none, one or several."""
    return () if arrays is None else tuple(arrays) if isinstance(arrays, (tuple, list)) else (arrays,)


def _fitting(result: Any, asked: Request, name: str) -> Any:
    """The result of a torch form as a contiguous tensor with memory of its own. SpecError if its kind is wrong."""
    shape = asked.kernel.shape_of(name, {n: a.shape for n, a in asked.plain.items()}, asked.scalars)
    kind = asked.kernel.kind_of(name, asked.dtype)
    if tuple(result.shape) != shape or dtype_of(result) != kind:
        got, due = f"{dtype_of(result).name} {tuple(result.shape)}", f"{kind.name} {shape}"
        raise SpecError(f"{asked.kernel.file}: torch= returns {got}, but the kernel returns {due}")
    inputs = {a.untyped_storage().data_ptr() for a in asked.arrays}
    return result.clone() if result.untyped_storage().data_ptr() in inputs else result.contiguous()


class CupyArrays(GpuArrays):
    @staticmethod
    def on_device_of(like: Any) -> AbstractContextManager[Any]:
        return like.device

    @staticmethod
    def empty(shape: Shape, dtype: DType, like: Any) -> Any:
        import cupy

        return cupy.empty(shape, like.dtype if dtype == dtype_of(like) else dtype.numpy)

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
