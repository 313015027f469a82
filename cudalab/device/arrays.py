"""Arrays of NumPy, PyTorch, CuPy and PyCUDA as views of one another, without copies. Libraries are imported on use."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import numpy as np

from cudalab.base import advice, packages
from cudalab.base.errors import InputError
from cudalab.spec.dtype import bits_of, dtype_of, foreign


@dataclass(frozen=True)
class DeviceArray:
    """A C-contiguous array in GPU memory: where it is and what it holds. `owner` keeps the memory alive."""

    shape: tuple[int, ...]
    dtype: np.dtype
    ptr: int
    owner: object = None

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        # The protocol has no bfloat16 and no float8: such an array is handed over as the integers of its bits.
        typestr = (bits_of(self.dtype) if foreign(self.dtype) else self.dtype).str
        return {"shape": self.shape, "typestr": typestr, "data": (self.ptr, False), "version": 3, "strides": None}


Plain = np.ndarray | DeviceArray


@dataclass(frozen=True)
class ForeignStream:
    """A stream as other libraries take it."""

    handle: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle  # the protocol's version, and the stream


def installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:  # there is no package that it could be in
        return False


@cache
def torch_missing(device: str) -> str | None:
    """Why torch cannot be used on `device`, and what to type; None if it can."""
    if not installed("torch"):
        return f"PyTorch is not installed; {advice.extra('torch')}"
    if device == "cuda":
        try:
            import torch

            sees_gpu = torch.cuda.is_available()
        except Exception as error:  # a broken installation raises what it likes
            return packages.broken("torch", error)
        if not sees_gpu:
            built = torch.version.cuda
            return f"PyTorch sees no GPU (built for {'CUDA ' + built if built else 'CPU only'}); install its CUDA build"
    return None


@cache
def cupy_missing(device: str) -> str | None:
    """Why CuPy cannot be used, and what to type; None if it can."""
    if not installed("cupy"):
        return f"CuPy is not installed; {advice.extra('cuda12')} (or cuda13, as your driver has)"
    try:
        import cupy
    except Exception as error:  # a broken installation raises what it likes
        return packages.broken("cupy", error)
    try:
        cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        unseen = type(error).__name__ == "CUDARuntimeError"
        return f"CuPy sees no GPU: {error}" if unseen else packages.broken("cupy", error)
    return None


def as_plain(array: Any) -> np.ndarray | DeviceArray:
    """An array of any library as a NumPy array (CPU) or a DeviceArray (GPU) on the same memory.

    Raises InputError for an unknown type or dtype, and for arrays that are not C-contiguous.
    """
    if isinstance(array, DeviceArray):
        return array
    if isinstance(array, np.ndarray):
        if isinstance(array, np.ma.MaskedArray):
            raise InputError("a masked array's mask would be lost; pass x.filled(...) or x.data")
        return _contiguous(array, array.flags.c_contiguous, "np.ascontiguousarray(x)")
    kind = dtype_of(array).numpy
    if type(array).__module__.partition(".")[0] == "torch":
        _dense(array)
        _contiguous(array, array.is_contiguous(), "x.contiguous()")
        if array.device.type not in ("cpu", "cuda"):
            raise InputError(f"cannot use a tensor on {array.device}; move it to a GPU or the CPU")
        if array.device.type == "cuda":
            return DeviceArray(tuple(array.shape), kind, array.data_ptr(), array)
        bits = array.detach().view(_bits_dtype(array)) if foreign(kind) else array.detach()
        try:
            return bits.numpy().view(kind)
        except (RuntimeError, TypeError, ValueError) as error:  # such as more dimensions than NumPy has
            raise InputError(f"cannot use this tensor as a NumPy array: {error}") from None
    if hasattr(array, "__cuda_array_interface__"):
        face = array.__cuda_array_interface__
        _contiguous(array, array.flags.c_contiguous, "cupy.ascontiguousarray(x)")
        return DeviceArray(tuple(face["shape"]), kind, face["data"][0] or 0, array)
    raise InputError(f"cannot use a {type(array).__name__}; pass a torch tensor or a CuPy, PyCUDA or NumPy array")


def overlap(array: Any, other: Any) -> bool:
    """Whether two arrays of any libraries, both on the CPU or both on the GPU, share memory."""
    a, b = as_plain(array), as_plain(other)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.may_share_memory(a, b)
    if isinstance(a, DeviceArray) and isinstance(b, DeviceArray):
        return span(a)[0] < span(b)[1] and span(b)[0] < span(a)[1]
    return False


def span(array: Any) -> tuple[int, int]:
    """The addresses at which a dense array of any library begins and ends."""
    plain = as_plain(array)
    start = plain.ctypes.data if isinstance(plain, np.ndarray) else plain.ptr
    return start, start + plain.nbytes


def _dense(array: Any) -> None:
    """Raise InputError for a torch object whose memory does not hold its elements as they are."""
    import torch

    if not isinstance(array, torch.Tensor):
        raise InputError(f"cannot use a {type(array).__name__}; pass a torch tensor")
    if array.is_nested or array.layout is not torch.strided:
        kind = "nested" if array.is_nested else str(array.layout).removeprefix("torch.").removeprefix("_")
        raise InputError(f"cannot use a {kind} tensor; pass a dense one, such as x.to_dense()")
    if array.is_neg() or array._is_zerotensor():  # memory that holds the opposite, or none
        raise InputError(
            "this tensor is a negative view, or zeros without memory; pass x.resolve_neg() or zeros_like(x)"
        )
    if array.is_conj():
        raise InputError("this tensor is a conjugate view, whose memory holds the other sign; pass x.resolve_conj()")
    theirs = [c for c in type(array).__mro__ if issubclass(c, torch.Tensor)]
    own = [c for c in theirs if c not in (torch.Tensor, torch.nn.Parameter)]
    if any({"__torch_function__", "__torch_dispatch__"} & vars(c).keys() for c in own):  # it may compute itself later
        raise InputError(f"a {type(array).__name__} overrides torch functions; pass x.as_subclass(torch.Tensor)")


def _contiguous(array: Any, is_so: bool, remedy: str) -> Any:
    if not is_so:
        raise InputError(f"the array of shape {tuple(array.shape)} is not C-contiguous; pass {remedy}")
    return array


def _bits_dtype(tensor: Any) -> Any:
    import torch

    return {1: torch.int8, 2: torch.int16}[tensor.element_size()]


def to_torch(array: np.ndarray | DeviceArray) -> Any:
    """Return a torch tensor on the memory of a NumPy or device array."""
    import torch

    target = getattr(torch, array.dtype.name, None)  # bool and complex ones, too
    if not isinstance(target, torch.dtype):
        raise InputError(f"PyTorch has no {array.dtype.name}")
    if isinstance(array, DeviceArray):
        if array.size == 0:  # there is no memory to share
            return torch.empty(array.shape, dtype=target, device="cuda")
        return torch.as_tensor(array, device="cuda").view(target)
    bits = array.view(bits_of(array.dtype)) if foreign(array.dtype) else array
    return torch.from_numpy(bits).view(target)


def to_cupy(array: DeviceArray) -> Any:
    """Return a CuPy array on the memory of a device array; bfloat16 and float8 as the integers of their bits."""
    import cupy

    memory = cupy.cuda.UnownedMemory(array.ptr, max(array.nbytes, 1), array)
    kind = bits_of(array.dtype) if foreign(array.dtype) else array.dtype
    return cupy.ndarray(array.shape, kind, cupy.cuda.MemoryPointer(memory, 0))
