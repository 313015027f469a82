"""An entry of a `.cu`, compiled and ready to be launched: through PyCUDA where it is timed, or as `kernel(x)` does.

Timed launches go to the lab's own stream through PyCUDA. Calls from Python go to the stream that is current for the
caller, of any library and from any thread; PyCUDA cannot wrap such a stream, so `Prepared` launches through libcuda.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import partial
from struct import Struct
from typing import Any

from cudalab.device import cuda, driver
from cudalab.device.arrays import DeviceArray
from cudalab.device.operands import Operands
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel, Launch

# A call's memory begins with a CUlaunchConfig of 56 bytes, whose stream is at byte 32; the pointers follow.
STREAM, POINTERS = 32, 56

# CUDA_ERROR_INVALID_CONTEXT: no context is current. CUDA_ERROR_INVALID_HANDLE: another one is, and the stream is its
# default one. CUDA_ERROR_CONTEXT_IS_DESTROYED: the current one has been destroyed.
OTHER_CONTEXT = (201, 400, 709)

# (write, launch): `write(stream, *pointers)` fills a call's memory, `launch()` enqueues it and returns the driver's
# code. Arguments that are made beforehand save two thirds of the call. A plain tuple unpacks faster than a named one.
_Record = tuple[Callable[..., None], Callable[[], int]]


class Prepared:
    """One entry with its geometry and its numbers, ready to be launched on other pointers and any stream.

    Several threads may call it at once. Each call takes a record of its own, which the driver has read when the launch
    returns.
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
            record = self._free.pop()  # one step for the interpreter: no other thread gets the same record
        except IndexError:
            record = self._record()
        write, launch = record
        write(*values)
        code = launch()
        if code in OTHER_CONTEXT:  # nothing was launched
            with driver.within(self._context):
                code = launch()
        self._free.append(record)
        if code:
            raise driver.refused(self._what, code)

    def _record(self) -> _Record:
        memory = ctypes.create_string_buffer(POINTERS + 8 * self._count)
        Struct("=7I").pack_into(memory, 0, *self._geometry)
        first = ctypes.addressof(memory) + POINTERS
        places = [first + 8 * a if isinstance(a, int) else ctypes.addressof(a) for a in self._arguments]
        arguments = ctypes.byref((ctypes.c_void_p * len(places))(*places))
        function, libcuda = ctypes.c_void_p.from_param(self._function), driver.libcuda()
        if with_config := getattr(libcuda, "cuLaunchKernelEx", None):
            launch = partial(with_config, ctypes.byref(memory), function, arguments, None)
        else:  # a driver older than CUDA 11.8
            stream = ctypes.c_void_p.from_buffer(memory, STREAM)
            launch = partial(libcuda.cuLaunchKernel, function, *self._geometry, stream, arguments, None)
        values = Struct(f"=Q{POINTERS - STREAM - 8}x{self._count}Q")  # x: no launch attributes
        return partial(values.pack_into, memory, STREAM), launch


def for_call(
    kernel: Kernel, entry: str, dtype: DType, arrays: Mapping[str, DeviceArray], context: int
) -> Prepared | None:
    """Compile and load one entry for arrays like these (inputs, then the output); None: there is nothing to launch.

    The launch is that of the spec for these shapes, dtypes and alignments, and does not change with the pointers.
    """
    launch = kernel.launch(entry, arrays)
    if launch.empty:
        return None
    code = cuda.cubin(kernel, dtype, driver.card(context).target)
    function = driver.function(code, cuda.lowered(kernel, dtype, launch.entry or entry, code), context)
    return Prepared(f"{kernel.name}: {entry}", function, context, launch, arrays)


def on_stream(kernel: Kernel, entry: str, dtype: DType, operands: Operands, module: Any = None) -> Callable[[], None]:
    """Pack the arguments of one entry, and return what launches it on the operands' stream, through PyCUDA.

    `module`: loaded code; None: the module that all launches of the kernel share.
    """
    module = module or cuda.of_kernel(kernel, dtype)
    launch = kernel.launch(entry, operands.named(kernel))
    if launch.empty:
        return lambda: None
    function = module.get_function(cuda.lowered(kernel, dtype, launch.entry or entry))
    function.prepare(["P" if isinstance(a, DeviceArray) else a.dtype.char for a in launch.args])
    values = [a.ptr if isinstance(a, DeviceArray) else a for a in launch.args]
    (grid, block), stream, shared = launch.dims, operands.stream, launch.shared

    def run() -> None:
        function.prepared_async_call(grid, block, stream, *values, shared_size=shared)

    return run
