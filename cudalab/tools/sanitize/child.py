"""The process that a sanitizer watches: it launches one entry at a time, once, and does nothing else.

A sanitizer may end it at any moment. It answers a `Request` with two `Answer`s; what kernels print goes to standard
error.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import msgspec
import numpy as np

from cudalab import host
from cudalab.base.child import Parent
from cudalab.base.errors import CudalabError, OverrunError, RaceError, Unavailable
from cudalab.device.arrays import DeviceArray
from cudalab.device.cpu import Cpu, Guarded
from cudalab.device.guard import offsets_by_name
from cudalab.device.operands import Operands, every, output_of
from cudalab.engine.groups import Group, Work
from cudalab.engine.rows import said
from cudalab.spec import cuda_source
from cudalab.spec.kernel import Arrays, Launch

Buffers = dict[str, tuple[int, int]]  # by name: address and bytes


class Request(msgspec.Struct):
    """Launch one entry on the inputs of a group. `gpu`: the GPU's number, or None for the CPU."""

    work: Work
    entry: str
    seed: int
    gpu: int | None


class Answer(msgspec.Struct):
    """Before the launch, where the arrays are; after it, `done` and how it failed by itself, or why it cannot run.

    `named`: whether the error says what it is, a race or an access outside of an array.
    """

    buffers: Buffers = {}
    done: bool = False
    error: str = ""
    named: bool = False
    missing: str = ""


def main(parent: Parent) -> None:
    os.environ.pop("LD_PRELOAD", None)  # for this process, not for a compiler that it starts
    os.dup2(2, 1)
    given: tuple[Work, int, Arrays] | None = None
    for request in parent.orders(Request):
        group = request.work.group()
        try:
            if given is None or given[:2] != (request.work, request.seed):
                given = (request.work, request.seed, group.arrays(request.seed))
            launch = _on_cpu if request.gpu is None else _on_gpu(request.gpu)
            launch(group, request.entry, given[2], parent.answer)
        except Unavailable as error:
            parent.answer(Answer(done=True, missing=str(error)))
        except Exception as error:  # the kernel's, or any library's
            text = str(error) if isinstance(error, CudalabError) else said(error, group.kernel)
            parent.answer(Answer(done=True, error=text, named=isinstance(error, OverrunError | RaceError)))
        else:
            parent.answer(Answer(done=True))


def _on_cpu(group: Group, entry: str, arrays: Arrays, say: Callable[[Answer], None]) -> None:
    kernel, dtype = group.kernel, group.dtype
    off = offsets_by_name(kernel, group.offsets)
    memory = {name: Guarded(a.shape, a.dtype, off[name]) for name, a in arrays.items()}

    def put(name: str, shape: tuple[int, ...], kind: np.dtype) -> np.ndarray:
        memory[name] = made = Guarded(shape, kind, off[name])
        return made.array

    inputs = {name: memory[name].array for name in arrays}
    output = output_of(kernel, dtype, inputs, put)

    def made_new() -> None:
        for name, array in arrays.items():
            memory[name].array[...] = array
        Cpu().poison(output)

    made_new()
    say(Answer({name: (m.array.ctypes.data, m.array.nbytes) for name, m in memory.items()}))
    operands = Operands(inputs, output, scalars=kernel.scalars_of(arrays))
    launches = kernel.launches(entry, operands.by_name(kernel))
    load = partial(
        host.load, cuda_source.read(kernel.cu), name=kernel.cu.name, defines=kernel.macros(dtype),
        standard=kernel.standard, include=kernel.cu.parent,
        entries=tuple(dict.fromkeys(launch.entry for launch in launches)),
    )  # fmt: skip
    constants = kernel.constants_of(operands.by_name(kernel))
    with _forbidden([piece for guarded in memory.values() for piece in guarded.around()]):
        _launch(load(sanitize=True), launches, constants)
    with suppress(Unavailable):  # no shared memory in the `.cu`, or another compiler
        made_new()
        _launch(load(races=True), launches, constants)


def _launch(module: host.Module, launches: Sequence[Launch], constants: Mapping[str, np.ndarray]) -> None:
    for name, value in constants.items():
        module.set_constant(name, value)
    for one in launches:
        module.launch(
            one.entry, *one.dims, one.args, one.shared, cooperative=one.cooperative, cluster=one.cluster
        )  # fmt: skip


@contextmanager
def _forbidden(pieces: Sequence[tuple[int, int]]) -> Iterator[None]:
    """Inside, the address sanitizer reports every access to these (address, bytes), which are outside of the arrays.

    Other arrays may get these addresses later.
    """
    sanitizer = ctypes.CDLL(None)
    for address, nbytes in pieces:
        sanitizer.__asan_poison_memory_region(ctypes.c_void_p(address), ctypes.c_size_t(nbytes))
    try:
        yield
    finally:
        for address, nbytes in pieces:
            sanitizer.__asan_unpoison_memory_region(ctypes.c_void_p(address), ctypes.c_size_t(nbytes))


def _on_gpu(index: int) -> Callable[[Group, str, Arrays, Callable[[Answer], None]], None]:
    """A function that launches on allocations of exactly the arrays' sizes. Inputs are written, the output is not."""
    import atexit

    import pycuda.driver as driver

    from cudalab.device import cuda
    from cudalab.device.driver import current_context
    from cudalab.device.launch import on_stream
    from cudalab.spec import tuned as stored

    if current_context() == 0:
        driver.init()
        context = driver.Device(index).retain_primary_context()
        context.push()
        atexit.register(context.pop)  # PyCUDA aborts the process if one is left at its end

    def launch(group: Group, entry: str, arrays: Arrays, say: Callable[[Answer], None]) -> None:
        kernel, dtype = group.kernel, group.dtype
        off = offsets_by_name(kernel, group.offsets)
        placed = {name: _allocated(driver, a.shape, a.dtype, off[name]) for name, a in arrays.items()}
        for name, array in arrays.items():
            if array.size:
                plain = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
                driver.memcpy_htod(placed[name].ptr, plain)

        def put(name: str, shape: tuple[int, ...], kind: np.dtype) -> DeviceArray:
            made[name] = _allocated(driver, shape, kind, off[name])
            return made[name]

        made: dict[str, DeviceArray] = {}
        output = output_of(kernel, dtype, placed, put)
        for array, begins in every(output):
            if isinstance(begins, bytes) and array.size:
                driver.memcpy_htod(array.ptr, np.frombuffer(begins * array.size, np.uint8))
        say(Answer(_places({**placed, **made})))
        stream = driver.Stream()
        tuned, _ = stored.chosen(kernel, entry, dtype, cuda.card(index))
        on_stream(tuned, entry, dtype, Operands(placed, output, stream, index, scalars=kernel.scalars_of(arrays)))()
        stream.synchronize()

    return launch


def _allocated(driver: Any, shape: tuple[int, ...], dtype: np.dtype, offset: int) -> DeviceArray:
    array = DeviceArray(tuple(shape), dtype, 0)
    memory = driver.mem_alloc(max(1, array.nbytes + offset))
    return DeviceArray(array.shape, dtype, int(memory) + offset, memory)


def _places(arrays: Mapping[str, DeviceArray]) -> Buffers:
    return {name: (a.ptr, a.nbytes) for name, a in arrays.items()}
