"""Calls with arrays like those of an earlier call: nothing is looked up, compiled or checked again.

The key of such a call is what the checks depend on: types, dtypes, shapes, strides, devices, alignment. It reads the
pointers, allocates the result and launches.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any

from cudalab.call import torch_operator
from cudalab.call.dispatch import NONE, Scalars, library_of, run
from cudalab.call.fast_several import Several
from cudalab.call.libraries import Done, NumpyArrays, TorchTensors, as_tuple
from cudalab.call.torch_operator import TorchOperator
from cudalab.device.driver import current_context
from cudalab.device.launch import InOrder, Prepared
from cudalab.spec import cuda_source
from cudalab.spec.kernel import Kernel

MISS = object()  # no result: the call is made as a first one
MOST = 1024  # calls that are remembered of one kernel, per library
ALIGNED = 255  # bits of a pointer that a launch may depend on: 256 bytes are what CUDA's allocator gives


@dataclass(frozen=True)
class Hit:
    """A call that was checked and prepared."""

    launch: Callable[..., None] | None  # takes the stream and the pointers; None: nothing to launch
    new: Callable[[Any], Any]  # the output of a call, from its first input
    alignment: int  # of such an output
    device: int
    nbytes: tuple[int, ...]  # of each input, then of the output


class Calls(dict[type, Callable[[tuple[Any, ...], Any], Any]]):
    """Functions that call one kernel, by the type of the first array: `first` until a GPU call is remembered."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel = kernel
        self.operator = TorchOperator(kernel, self.plainly)
        self.quick: dict[type, Quick] = {}  # their bound methods are the values of this dict
        self._text = ""  # of the .cu that the remembered calls run

    def __missing__(self, kind: type) -> Callable[[tuple[Any, ...], Any], Any]:
        return self.first

    def first(self, arrays: tuple[Any, ...], out: Any) -> Any:
        """A call with all checks."""
        library = library_of(self.kernel, arrays, out)
        if library is TorchTensors and torch_operator.concerns(arrays if out is None else (*arrays, out)):
            return self.operator.call(arrays, out, NONE)
        return self._remember(arrays, out, run(self.kernel, library, arrays, out))

    def of_several(self, arrays: tuple[Any, ...], out: Any, scalars: Scalars) -> Any:
        """A call of a kernel with scalars, a workspace, or outputs that are not one new array."""
        quick = self.quick.get(type(arrays[0])) if arrays else None
        return quick.of_several(arrays, out, scalars) if quick else self.first_of_several(arrays, out, scalars)

    def first_of_several(self, arrays: tuple[Any, ...], out: Any, scalars: Scalars) -> Any:
        """Such a call with all checks."""
        library = library_of(self.kernel, arrays, out)
        if library is TorchTensors and torch_operator.concerns((*arrays, *as_tuple(out))):
            return self.operator.call(arrays, out, scalars)
        return self._remember(arrays, out, run(self.kernel, library, arrays, out, scalars), scalars)

    def plainly(self, arrays: tuple[Any, ...], scalars: Scalars = NONE) -> Any:
        """A call on plain tensors; it ignores recording, differentiation and transforms around it."""
        if quick := self.quick.get(type(arrays[0])):
            several = scalars or not self.kernel.simple
            result = quick.hit_of_several(arrays, None, scalars) if several else quick.hit(arrays, None)
            if result is not MISS:
                return result
        return self._remember(
            arrays, None, run(self.kernel, library_of(self.kernel, arrays), arrays, None, scalars), scalars
        )

    def _remember(self, arrays: tuple[Any, ...], out: Any, done: Done, scalars: Scalars = NONE) -> Any:
        """Keep a call that was made on a GPU, if another like it can be told from its arguments; returns the result."""
        if not done.on_gpu or any(callable(value) for value in self.kernel.constants.values()):
            return done.result  # a call may set the constants of an earlier one anew
        if (text := cuda_source.read(self.kernel.cu)) != self._text:
            self.forget()
            self._text = text
        kind = type(arrays[0])
        if kind not in self.quick:
            made = QUICK[kind.__module__.partition(".")[0]](self)
            self.quick.update(dict.fromkeys(made.types, made))
            self.update(dict.fromkeys(made.types, made.call))
        if quick := self.quick.get(kind):  # there is none for subclasses, which may behave in any way
            if self.kernel.simple:
                quick.remember(arrays, out, done.result, done.prepared)
            else:
                quick.several.remember(arrays, out, scalars, done)
        return done.result

    def forget(self) -> None:
        """Make the next calls first ones again."""
        self.clear()
        self.quick.clear()


class Quick:
    """Repeated calls with arrays of one library, by their signature."""

    types: tuple[type, ...]  # of arrays that are plain data, without behaviour of their own
    pointer: Callable[[Any], int]
    device: Callable[[Any], int]
    stream: Callable[[int], int]  # the handle of the caller's current stream on a device
    new_like: Callable[[Any], Any]  # an array of the same shape and dtype, to be written
    new: Callable[..., Any]  # new(shape, dtype, array): of another shape or dtype
    fill: Callable[[Any, float], object] = staticmethod(NumpyArrays.fill)
    written: Callable[[Any], object]  # tells the library that an array has been written

    def __init__(self, calls: Calls) -> None:
        self._kernel, self._first, self._first_of_several = calls.kernel, calls.first, calls.first_of_several
        self.several = Several(calls.kernel, self, MOST)
        self._hits: dict[Hashable, Hit] = {}  # of calls that allocate their output
        self._hits_with_out: dict[Hashable, Hit] = {}

    def call(self, arrays: tuple[Any, ...], out: Any) -> Any:
        result = self.hit(arrays, out)
        return self._first(arrays, out) if result is MISS else result

    def of_several(self, arrays: tuple[Any, ...], out: Any, scalars: Scalars) -> Any:
        result = self.hit_of_several(arrays, out, scalars)
        return self._first_of_several(arrays, out, scalars) if result is MISS else result

    def hit_of_several(self, arrays: tuple[Any, ...], out: Any, scalars: Scalars) -> Any:
        """The result of a call with scalars, a workspace, or outputs that are not one new array; or MISS."""
        results = self.several.hit(arrays, out, scalars)
        return MISS if results is None else results if len(results) > 1 else results[0]

    def hit(self, arrays: tuple[Any, ...], out: Any) -> Any:
        """The call's result, or MISS."""
        if out is None:
            key, pointers = self.signature(arrays)
            if (hit := self._hits.get(key)) is None:
                return MISS
            out = hit.new(arrays[0])
            pointers.append(pointer := self.pointer(out))
            if pointer & ALIGNED != hit.alignment:
                return MISS
        else:
            key, pointers = self.signature((*arrays, out))
            hit = self._hits_with_out.get(key)
            if hit is None or self._overlap(pointers, hit.nbytes):
                return MISS
            self.written(out)
        if hit.launch is not None:
            hit.launch(self.stream(hit.device), *pointers)
        return out

    def remember(self, arrays: tuple[Any, ...], out: Any, result: Any, prepared: Prepared | InOrder | None) -> None:
        hits = self._hits if out is None else self._hits_with_out
        if len(hits) >= MOST:
            hits.clear()  # the program keeps using new shapes
        key, _ = self.signature(arrays if out is None else (*arrays, out))
        if key is not None:
            nbytes = tuple(array.nbytes for array in (*arrays, result))
            launch = prepared.__call__ if prepared else None
            new = self.maker(arrays[0], result)
            hits[key] = Hit(launch, new, self.pointer(result) & ALIGNED, self.device(arrays[0]), nbytes)

    def maker(self, first: Any, result: Any) -> Callable[[Any], Any]:
        """A function that allocates an output like `result` from a first input like `first`."""
        shape = tuple(result.shape)
        alike = shape == tuple(first.shape) and result.dtype == first.dtype
        return self.new_like if alike else partial(self.new, shape, result.dtype)

    def place(self, pointer: int) -> int:
        """The bits of a pointer that a launch may depend on."""
        return pointer & ALIGNED

    def _overlap(self, pointers: list[int], nbytes: tuple[int, ...]) -> bool:
        """Whether the output shares memory with an input, unless it is that input and the kernel is pointwise."""
        start, stop = pointers[-1], pointers[-1] + nbytes[-1]
        for first, size in zip(pointers[:-1], nbytes[:-1], strict=True):
            in_place = self._kernel.pointwise and (first, first + size) == (start, stop)
            if first < stop and start < first + size and not in_place:
                return True
        return False

    def signature(self, arrays: tuple[Any, ...]) -> tuple[Hashable, list[int]]:
        """What the checks depend on (None if such arrays are never a hit), and the pointers."""
        raise NotImplementedError


class TorchQuick(Quick):
    def __init__(self, calls: Calls) -> None:
        import torch
        from torch.autograd.graph import increment_version

        super().__init__(calls)
        self.types = (torch.Tensor, torch.nn.Parameter)
        self.pointer, self.device = torch.Tensor.data_ptr, torch.Tensor.get_device
        self.new_like, self.new = torch.empty_like, lambda shape, dtype, array: array.new_empty(shape, dtype=dtype)
        self.stream, self.written = torch._C._cuda_getCurrentRawStream, increment_version
        self.fill = TorchTensors.fill
        self._modes, self._tracing, self._transforming, self._forward_ad = torch_operator.recording()
        self._grad_enabled, self._differentiable = torch.is_grad_enabled, calls.operator.differentiable
        self._allocate = _allocator(torch)

    def call(self, arrays: tuple[Any, ...], out: Any) -> Any:
        if self._watched():
            return self._first(arrays, out)
        if out is None and len(arrays) == 1 and (result := self._one(*arrays)) is not MISS:
            return result
        if self._grad_enabled():
            for x in arrays if out is None else (*arrays, out):
                if getattr(x, "requires_grad", True):
                    launched = out is None and self._kernel.backward and all(self._on_gpu(a) for a in arrays)
                    return self._differentiable(arrays, NONE) if launched else self._first(arrays, out)
        result = self.hit(arrays, out)
        return self._first(arrays, out) if result is MISS else result

    def of_several(self, arrays: tuple[Any, ...], out: Any, scalars: Scalars) -> Any:
        if self._watched():
            return self._first_of_several(arrays, out, scalars)
        if self._grad_enabled():
            for x in (*arrays, *as_tuple(out)):
                if getattr(x, "requires_grad", True):
                    launched = out is None and self._kernel.backward and all(self._on_gpu(a) for a in arrays)
                    if launched and len(arrays) == len(self._kernel.input_names):
                        return self._differentiable(arrays, scalars)
                    return self._first_of_several(arrays, out, scalars)
        return super().of_several(arrays, out, scalars)

    def _watched(self) -> bool:
        """Whether PyTorch has to do more with any call than to launch it."""
        return bool(self._modes() or self._tracing() or self._transforming() or self._forward_ad._current_level >= 0)

    def maker(self, first: Any, result: Any) -> Callable[[Any], Any]:
        if not (allocate := self._allocate):
            return super().maker(first, result)
        size, stride, dtype = tuple(result.shape), result.stride(), result.dtype
        return lambda array: allocate(size, stride, dtype)

    def _one(self, x: Any) -> Any:
        """The result for one tensor, or MISS. It saves half a microsecond over `hit`, which takes several arrays."""
        if type(x) not in self.types or (x.requires_grad and self._grad_enabled()):
            return MISS
        try:
            pointer = x.data_ptr()
            place = pointer & ALIGNED if pointer else None
            hit = self._hits.get((x.get_device(), x.dtype, x.shape, x.is_contiguous(), x.is_neg(), x.is_conj(), place))
        except RuntimeError:  # as in `signature`
            return MISS
        if hit is None:
            return MISS
        out = hit.new(x)
        written = out.data_ptr()
        if written & ALIGNED != hit.alignment:
            return MISS
        if hit.launch is not None:
            hit.launch(self.stream(hit.device), pointer, written)
        return out

    def signature(self, arrays: tuple[Any, ...]) -> tuple[Hashable, list[int]]:
        key: tuple[Hashable, ...] = ()
        pointers: list[int] = []
        try:
            for x in arrays:
                if type(x) not in self.types:
                    return None, pointers
                pointers.append(pointer := x.data_ptr())
                place = pointer & ALIGNED if pointer else None
                key += (x.get_device(), x.dtype, x.shape, x.is_contiguous(), x.is_neg(), x.is_conj(), place)
        except RuntimeError:  # from a tensor without memory or shape: sparse, nested, or wrapped by a transform
            return None, pointers
        return key, pointers

    def _on_gpu(self, array: Any) -> bool:
        return type(array) in self.types and array.is_cuda


def _allocator(torch: Any) -> Callable[..., Any] | None:
    """The allocator of torch.compile's programs. It takes 0.6 of the time of `empty_like`, on the current device.

    It is private to PyTorch: None if this PyTorch has none. None also if there are several devices.
    """
    guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
    return getattr(guards, "_empty_strided_cuda", None) if torch.cuda.device_count() == 1 else None


class CupyQuick(Quick):
    def __init__(self, calls: Calls) -> None:
        import cupy

        super().__init__(calls)
        self.types = (cupy.ndarray,)
        self.pointer, self.device = lambda array: array.data.ptr, lambda array: array.device.id
        self.new_like, self.new = cupy.empty_like, lambda shape, dtype, array: cupy.empty(shape, dtype)
        self.stream = lambda device: cupy.cuda.get_current_stream().ptr
        self.written = lambda array: None
        self._current_device = cupy.cuda.runtime.getDevice

    def signature(self, arrays: tuple[Any, ...]) -> tuple[Hashable, list[int]]:
        key: list[Hashable] = []
        pointers: list[int] = []
        current = self._current_device()  # whose memory and streams CuPy uses
        for x in arrays:
            if type(x) not in self.types or x.device.id != current:
                return None, pointers
            pointers.append(x.data.ptr)
            key += (current, x.dtype, x.shape, x.strides, pointers[-1] & ALIGNED)
        return tuple(key), pointers


class PycudaQuick(Quick):
    def __init__(self, calls: Calls) -> None:
        from pycuda.gpuarray import GPUArray

        super().__init__(calls)
        self.types = (GPUArray,)
        self.pointer = lambda array: 0 if array.gpudata is None else int(array.gpudata)
        self.new_like = lambda array: GPUArray(array.shape, array.dtype, array.allocator)
        self.new = lambda shape, dtype, array: GPUArray(shape, dtype, array.allocator)
        self.stream, self.device, self.written = lambda device: 0, lambda array: 0, lambda array: None
        self._current_context = current_context

    def signature(self, arrays: tuple[Any, ...]) -> tuple[Hashable, list[int]]:
        key: list[Hashable] = [self._current_context()]
        pointers: list[int] = []
        for x in arrays:
            if type(x) not in self.types:
                return None, pointers
            pointers.append(self.pointer(x))
            key += (x.dtype, x.shape, x.strides, pointers[-1] & ALIGNED)
        return tuple(key), pointers


QUICK: dict[str, type[Quick]] = {"torch": TorchQuick, "cupy": CupyQuick, "pycuda": PycudaQuick}
