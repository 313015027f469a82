"""An entry of a `.cu`, compiled and ready to be launched: through PyCUDA where it is timed, or as `kernel(x)` does.

Timed launches go to the lab's own stream through PyCUDA. Calls from Python go to the stream that is current for the
caller, of any library and from any thread; PyCUDA cannot wrap such a stream, so `Prepared` launches through libcuda.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import partial
from struct import Struct
from types import MappingProxyType
from typing import Any

import numpy as np

from cudalab.device import constants, cuda, driver, limits, passed
from cudalab.device.arrays import DeviceArray
from cudalab.device.operands import Operands
from cudalab.device.passed import WIDEST, StandIn
from cudalab.spec import launch_check
from cudalab.spec.array_info import ArrayInfo, infos
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel, Launch

# CUlaunchAttribute: a number of CUlaunchAttributeID, and from byte 8 on a value of 64 bytes.
COOPERATIVE, CLUSTER_DIMENSION = 2, 4
ATTRIBUTE_INT, ATTRIBUTE_DIM = "=I4xi60x", "=I4x3I52x"

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

    `passed` names scalars whose values each call gives; `places` says which arguments they are, by the place of each.
    Several threads may call it at once. Each call takes a record of its own, which the driver has read when the launch
    returns.
    """

    def __init__(
        self, what: str, function: int, context: int, launch: Launch, arrays: Mapping[str, Any],
        passed: tuple[str, ...] = (), places: Mapping[int, str] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        grid, block = launch.dims
        self._what, self._function, self._context, self._count = what, function, context, len(arrays)
        self.passed, self.places = passed, places
        self._fixed = _fixed(launch, launch.entry)
        self._geometry = (*map(int, grid), *map(int, block), int(launch.shared))
        self._cooperative, self._attributes = launch.cooperative, _attributes(launch)
        at = {id(array): 8 * i for i, array in enumerate(arrays.values())}
        numbers = {name: 8 * len(arrays) + WIDEST * i for i, name in enumerate(passed)}
        self._arguments: list[Any] = [  # a number's bytes, or where a call writes it, in bytes behind the first pointer
            numbers[places[i]] if i in places
            else at[id(a)] if id(a) in at
            else ctypes.create_string_buffer(a.tobytes(), a.nbytes)
            for i, a in enumerate(launch.args)
        ]  # fmt: skip
        names = {id(array): name for name, array in arrays.items()}
        self._kinds: list[Any] = [
            None if i in places else names.get(id(a)) or a.dtype for i, a in enumerate(launch.args)
        ]
        self._free: list[_Record] = []

    def __call__(self, *values: Any) -> None:
        """Enqueue on a stream: its handle, the pointers in the order of the arrays, the bytes of each passed scalar.

        Raises LaunchError.
        """
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
        memory = ctypes.create_string_buffer(POINTERS + 8 * self._count + WIDEST * len(self.passed))
        Struct("=7I").pack_into(memory, 0, *self._geometry)
        first = ctypes.addressof(memory) + POINTERS
        places = [first + a if isinstance(a, int) else ctypes.addressof(a) for a in self._arguments]
        arguments = ctypes.byref((ctypes.c_void_p * len(places))(*places))
        function, libcuda = ctypes.c_void_p.from_param(self._function), driver.libcuda()
        if with_config := getattr(libcuda, "cuLaunchKernelEx", None):
            launch = partial(with_config, ctypes.byref(memory), function, arguments, None)
        else:  # a driver older than CUDA 11.8
            stream = ctypes.c_void_p.from_buffer(memory, STREAM)
            old = (function, *self._geometry, stream, arguments)
            if self._cooperative:
                launch = partial(libcuda.cuLaunchCooperativeKernel, *old)
            else:
                launch = partial(libcuda.cuLaunchKernel, *old, None)
        given = f"{self._count}Q" + f"{WIDEST}s" * len(self.passed)
        if not self._attributes:
            values = Struct(f"=Q{POINTERS - STREAM - 8}x{given}")  # x: no launch attributes
            return partial(values.pack_into, memory, STREAM), launch
        attributes = ctypes.create_string_buffer(b"".join(self._attributes))
        values, count = Struct(f"=QQQ{given}"), len(self._attributes)

        def write(stream: int, *pointers: Any) -> None:
            values.pack_into(memory, STREAM, stream, ctypes.addressof(attributes), count, *pointers)

        return write, launch

    def at(self, launch: Any, entry: str, stand_ins: Mapping[str, StandIn]) -> Prepared | None:
        """The same function with another grid and other numbers; None if more changes than these.

        `launch` is what the launch function of `entry` gives for arrays as ArrayInfo, and for stand-ins of the passed
        scalars.
        """
        if not isinstance(launch, Launch) or launch_check.wrong_geometry(launch) or launch.empty:
            return None
        names = {id(one): name for name, one in stand_ins.items()}
        places = {i: names[id(a)] for i, a in enumerate(launch.args) if id(a) in names}
        kinds = [
            None if i in places else a.name if type(a) is ArrayInfo else getattr(a, "dtype", None)
            for i, a in enumerate(launch.args)
        ]  # fmt: skip
        if (_fixed(launch, entry), places, kinds) != (self._fixed, self.places, self._kinds):
            return None
        limits.refuse_addresses(launch)
        made = copy(self)
        made._geometry = (*map(int, launch.dims[0]), *self._geometry[3:])
        made._arguments = [
            ctypes.create_string_buffer(a.tobytes(), a.nbytes) if isinstance(kind, np.dtype) else old
            for a, kind, old in zip(launch.args, kinds, self._arguments, strict=True)
        ]
        made._free = []
        return made


def _fixed(launch: Launch, entry: str) -> tuple[Any, ...]:
    """What `Prepared.at` does not change of a launch; `entry`: the function if the launch names none."""
    grid = launch.grid if launch.cooperative else None  # it has to fit the GPU
    return grid, launch.block, launch.shared, launch.cooperative, launch.cluster, launch.entry or entry


def _attributes(launch: Launch) -> list[bytes]:
    """The launch attributes that a launch needs, each a CUlaunchAttribute."""
    found = [struct.pack(ATTRIBUTE_INT, COOPERATIVE, 1)] if launch.cooperative else []
    if cluster := launch.cluster_dims:
        found.append(struct.pack(ATTRIBUTE_DIM, CLUSTER_DIMENSION, *map(int, cluster)))
    return found


@dataclass(frozen=True)
class InOrder:
    """Several launches that are one call, all on the same pointers."""

    each: tuple[Prepared, ...]

    def __call__(self, *values: Any) -> None:
        for prepared in self.each:
            prepared(*values)

    @property
    def passed(self) -> tuple[str, ...]:
        return self.each[0].passed


def for_call(
    kernel: Kernel, entry: str, dtype: DType, arrays: Mapping[str, DeviceArray], context: int,
    scalars: Mapping[str, Any] = MappingProxyType({}),
) -> Prepared | InOrder | None:  # fmt: skip
    """Compile and load one entry for arrays like these (inputs, outputs, workspace); None: there is nothing to launch.

    The launch is that of the spec for these shapes, dtypes and alignments, and does not change with the pointers.
    """
    asked = kernel.launches(entry, {**arrays, **scalars})
    launches, count = [launch for launch in asked if not launch.empty], len(asked)
    if not launches:
        return None
    launched = tuple(one.entry for one in launches)
    code = cuda.cubin(kernel, dtype, driver.card(context).target, launched)
    symbols = cuda.symbols_of(kernel, dtype, launched, code)
    functions = [driver.function(code, symbols[one.entry], context) for one in launches]
    for function, one in zip(functions, launches, strict=True):
        limits.refuse_addresses(one)
        limits.make_able(function, one, context)
    if kernel.constants:
        given = {**arrays, **scalars}
        constants.set_all(kernel, given, code, lambda name: driver.global_of(code, context, name), context)
    found = passed.on(kernel, entry, infos(arrays), scalars) if scalars and len(launches) == count else {}
    every = tuple(
        Prepared(
            f"{kernel.name}: {entry}", function, context, one, arrays, tuple(found),
            {place: name for of_launches in found.values() for place, name in of_launches[i].items()},
        )
        for i, (function, one) in enumerate(zip(functions, launches, strict=True))
    )  # fmt: skip
    return every[0] if len(every) == 1 else InOrder(every)


def again(
    before: Prepared | InOrder, kernel: Kernel, entry: str, known: Mapping[str, ArrayInfo], scalars: Mapping[str, Any]
) -> Prepared | InOrder | None:
    """The launches of `for_call` with other values of scalars that the launch function computes with.

    None where more changes with them than grids and numbers: then `for_call` has to compile, or to check.
    """
    each = before.each if isinstance(before, InOrder) else (before,)
    stand_ins = {name: StandIn() for name in before.passed}
    try:
        launches = kernel.unchecked_launches(entry, known, {**scalars, **stand_ins})
        if len(launches) != len(each):
            return None
        pairs = zip(each, launches, strict=True)
        every = tuple(made for one, launch in pairs if (made := one.at(launch, entry, stand_ins)))
    except passed.Looked:
        return None
    if len(every) < len(each) or any(map(passed.looked, stand_ins.values())):
        return None
    return every[0] if len(every) == 1 else InOrder(every)


def set_constants(kernel: Kernel, dtype: DType, operands: Operands, launched: tuple[str, ...], module: Any) -> None:
    """Set the `__constant__` variables of a loaded module as the spec has them for these operands."""
    if kernel.constants:
        context = driver.current_context()
        code = cuda.cubin(kernel, dtype, driver.card(context).target, launched)
        constants.set_all(kernel, operands.by_name(kernel), code, module.get_global, context)


def local_bytes(kernel: Kernel, dtype: DType, launched: tuple[str, ...]) -> int:
    """Bytes of local memory that a thread uses, the most of these functions."""
    module, symbols = cuda.of_kernel(kernel, dtype, launched), cuda.symbols_of(kernel, dtype, launched)
    what = driver.pycuda().function_attribute.LOCAL_SIZE_BYTES
    return max((int(module.get_function(symbols[one]).get_attribute(what)) for one in launched), default=0)


def on_stream(kernel: Kernel, entry: str, dtype: DType, operands: Operands, module: Any = None) -> Callable[[], None]:
    """Pack the arguments of one entry, and return what launches it on the operands' stream, through PyCUDA.

    `module`: loaded code; None: the module that all launches of the kernel share.
    """
    launches = [launch for launch in kernel.launches(entry, operands.by_name(kernel)) if not launch.empty]
    launched = tuple(launch.entry for launch in launches)
    module = module or cuda.of_kernel(kernel, dtype, launched)
    symbols = cuda.symbols_of(kernel, dtype, launched)
    set_constants(kernel, dtype, operands, launched, module)
    runs = [_one(module.get_function(symbols[one.entry]), one, operands.stream) for one in launches]
    if len(runs) == 1:
        return runs[0]

    def run() -> None:
        for each in runs:
            each()

    return run


def _one(function: Any, launch: Launch, stream: Any) -> Callable[[], None]:
    """What launches one function, whose arguments are packed here."""
    limits.refuse_addresses(launch)
    function.prepare(["P" if isinstance(a, DeviceArray) else a.dtype.char for a in launch.args])
    values = [a.ptr if isinstance(a, DeviceArray) else a for a in launch.args]
    (grid, block), shared = launch.dims, launch.shared
    if launch.cooperative or launch.cluster:
        return _together(function, launch, stream, values)
    if shared:
        known = driver.pycuda().function_attribute
        static, most = function.get_attribute(known.SHARED_SIZE_BYTES), limits.most_shared(driver.current_context())
        if grow := limits.shared_to_opt_in(launch, static, most):
            function.set_attribute(known.MAX_DYNAMIC_SHARED_SIZE_BYTES, grow)

    def run() -> None:
        function.prepared_async_call(grid, block, stream, *values, shared_size=shared)

    return run


def _together(function: Any, launch: Launch, stream: Any, values: list[Any]) -> Callable[[], None]:
    """Return the same with launch attributes, which PyCUDA lacks: for a cooperative launch, for clusters."""
    context, (grid, block) = driver.current_context(), launch.dims
    handle = driver.function_of(lambda other: function.prepared_async_call(grid, block, other, *values))
    limits.make_able(handle, launch, context)
    arrays = {str(i): a for i, a in enumerate(launch.args) if isinstance(a, DeviceArray)}
    prepared = Prepared(launch.entry, handle, context, launch, arrays)
    pointers = [array.ptr for array in arrays.values()]

    def run() -> None:
        prepared(stream.handle, *pointers)

    run.of = function  # type: ignore[attr-defined]  # keeps the module loaded
    return run
