"""Launches on any library's stream, from any thread, through the driver alone: what `kernel(x)` does on a GPU.

PyCUDA cannot wrap a stream of another library and does not show a function's handle. So PyCUDA only compiles here; the
code is loaded and launched by libcuda itself.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from struct import Struct
from typing import Any

from cudalab.base.errors import LaunchError
from cudalab.device.cuda import cubin, libcuda
from cudalab.device.interop import DeviceArray
from cudalab.spec import cuda_source
from cudalab.spec.card import Card
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel, Launch


def _ask(name: str, *arguments: Any) -> None:
    """Call the driver; raises LaunchError if it refuses."""
    if code := getattr(libcuda(), name)(*arguments):
        raise _refused(name, code)


def _refused(what: str, code: int) -> LaunchError:
    name = ctypes.c_char_p()
    libcuda().cuGetErrorName(code, ctypes.byref(name))
    said = name.value.decode() if name.value else str(code)
    hint = "; call it once before the capture, which compiles and loads it" if "CAPTURE" in said else ""
    return LaunchError(f"{what}: the driver said {said}{hint}")


@cache
def primary_context(index: int) -> int:
    """The context of GPU number `index` that torch, CuPy and the lab share."""
    device, context = ctypes.c_int(), ctypes.c_void_p()
    _ask("cuInit", 0)
    _ask("cuDeviceGet", ctypes.byref(device), index)
    _ask("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    assert context.value
    return context.value


@contextmanager
def within(context: int) -> Iterator[None]:
    """With this context current, whatever was current before, if anything: threads of other libraries may have none."""
    _ask("cuCtxPushCurrent_v2", ctypes.c_void_p(context))
    try:
        yield
    finally:
        _ask("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


@cache
def card(context: int) -> Card:
    """The GPU of a context."""
    device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    name = ctypes.create_string_buffer(256)
    with within(context):
        _ask("cuCtxGetDevice", ctypes.byref(device))
    for number, attribute in ((major, 75), (minor, 76)):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
        _ask("cuDeviceGetAttribute", ctypes.byref(number), attribute, device)
    _ask("cuDeviceGetName", name, len(name), device)
    return Card(f"{major.value}.{minor.value}", name.value.decode())


@cache
def _module(code: bytes, context: int) -> ctypes.c_void_p:
    """Code loaded into a context, where it stays: graphs that others captured may hold it."""
    module = ctypes.c_void_p()
    with within(context):
        _ask("cuModuleLoadData", ctypes.byref(module), code)
    return module


@cache
def _function(code: bytes, entry: str, context: int) -> int:
    function = ctypes.c_void_p()
    module = _module(code, context)
    with within(context):
        _ask("cuModuleGetFunction", ctypes.byref(function), module, entry.encode())
    assert function.value
    return function.value


STREAM, POINTERS = 32, 56  # where a record has the stream, and what follows the CUlaunchConfig: the pointers


# What the driver answers where no context is current, where another is and the stream is its default one, or where the
# current one has been destroyed: CUDA_ERROR_INVALID_CONTEXT, _INVALID_HANDLE and _CONTEXT_IS_DESTROYED.
OTHER_CONTEXT = (201, 400, 709)

# Of one call: what takes the stream and the pointers, and what launches (with arguments that were made beforehand, a
# third of the cost of making them in the call). A plain tuple, since one with names takes longer to take apart.
_Record = tuple[Callable[..., None], Callable[[], int]]


class Prepared:
    """One entry with its geometry and its numbers, ready to be launched on other pointers and any stream.

    Threads may call it at once, and one call may interrupt another: each has a record of its own, which the driver has
    read when the launch returns.
    """

    def __init__(
        self, what: str, function: int, context: int, launch: Launch, arrays: Mapping[str, DeviceArray]
    ) -> None:
        grid, block = launch.dims
        self._what, self._function, self._context, self._count = what, function, context, len(arrays)
        self._geometry = (*map(int, grid), *map(int, block), int(launch.shared))
        places = {id(array): i for i, array in enumerate(arrays.values())}
        self._arguments = [  # an array's place among the pointers, or a number's bytes
            places[id(a)] if id(a) in places else ctypes.create_string_buffer(a.tobytes(), a.nbytes)
            for a in launch.args
        ]
        self._free: list[_Record] = []

    def __call__(self, *values: int) -> None:
        """Enqueue on a stream: its handle, then the pointers in the order of the arrays. Raises LaunchError."""
        try:
            record = self._free.pop()  # in one step, whatever other threads do
        except IndexError:
            record = self._record()
        write, launch = record
        write(*values)
        code = launch()
        if code in OTHER_CONTEXT:  # nothing was launched
            with within(self._context):
                code = launch()
        self._free.append(record)
        if code:
            raise _refused(self._what, code)

    def _record(self) -> _Record:
        memory = ctypes.create_string_buffer(POINTERS + 8 * self._count)
        Struct("=7I").pack_into(memory, 0, *self._geometry)
        first = ctypes.addressof(memory) + POINTERS
        places = [first + 8 * a if isinstance(a, int) else ctypes.addressof(a) for a in self._arguments]
        arguments = ctypes.byref((ctypes.c_void_p * len(places))(*places))
        function = ctypes.c_void_p.from_param(self._function)
        if with_config := getattr(libcuda(), "cuLaunchKernelEx", None):
            launch = partial(with_config, ctypes.byref(memory), function, arguments, None)
        else:  # a driver older than CUDA 11.8
            stream = ctypes.c_void_p.from_buffer(memory, STREAM)
            launch = partial(libcuda().cuLaunchKernel, function, *self._geometry, stream, arguments, None)
        values = Struct(f"=Q{POINTERS - STREAM - 8}x{self._count}Q")  # x: no launch attributes
        return partial(values.pack_into, memory, STREAM), launch


def prepare(
    kernel: Kernel, entry: str, dtype: DType, arrays: Mapping[str, DeviceArray], context: int
) -> Prepared | None:
    """Compile and load one entry for arrays like these (inputs, then the output); None: there is nothing to launch.

    The launch is that of the spec for these shapes, dtypes and alignments, and does not change with the pointers.
    """
    launch = kernel.launch(entry, arrays)
    if launch.empty:
        return None
    text = cuda_source.read(kernel.cu)
    code = cubin(text, kernel.cu.name, kernel.macros(dtype), kernel.cu.parent, card(context).target)
    return Prepared(f"{kernel.name}: {entry}", _function(code, entry, context), context, launch, arrays)
