"""The process that a sanitizer watches: it launches one entry at a time, once, and does nothing else.

A sanitizer may end it at any moment. It answers a `Request` with two `Answer`s; what kernels print goes to standard
error.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import numpy as np

from cudalab import host
from cudalab.base.child import Parent
from cudalab.base.errors import CudalabError, Unavailable
from cudalab.device.arrays import DeviceArray
from cudalab.device.cpu import Guarded
from cudalab.device.guard import GUARD, POISON_BYTE, offsets_by_name
from cudalab.device.operands import Operands
from cudalab.engine.plan import Group, Work
from cudalab.engine.rows import said
from cudalab.spec import cuda_source
from cudalab.spec.kernel import Arrays

Buffers = dict[str, tuple[int, int]]  # by name: address and bytes


class Request(msgspec.Struct):
    """Launch one entry on the inputs of a group. `gpu`: the GPU's number, or None for the CPU."""

    work: Work
    entry: str
    seed: int
    gpu: int | None


class Answer(msgspec.Struct):
    """Before the launch, where the arrays are; after it, `done` and, if it failed by itself, how."""

    buffers: Buffers = {}
    done: bool = False
    error: str = ""


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
        except Exception as error:  # the kernel's, or any library's
            text = str(error) if isinstance(error, CudalabError) else said(error, group.kernel)
            parent.answer(Answer(done=True, error=text))
        else:
            parent.answer(Answer(done=True))


def _on_cpu(group: Group, entry: str, arrays: Arrays, say: Callable[[Answer], None]) -> None:
    kernel, dtype = group.kernel, group.dtype
    shape = kernel.result_shape({name: a.shape for name, a in arrays.items()})
    off = offsets_by_name(kernel, group.offsets)
    memory = {name: Guarded(a.shape, a.dtype, off[name]) for name, a in arrays.items()}
    for name, array in arrays.items():
        memory[name].array[...] = array
    memory[kernel.output] = Guarded(shape, dtype.numpy, off[kernel.output])
    memory[kernel.output].array.reshape(-1).view(np.uint8)[:] = POISON_BYTE
    for guarded in memory.values():
        _forbid(guarded.whole.ctypes.data, GUARD)
        _forbid(guarded.whole.ctypes.data + guarded.whole.nbytes - GUARD, GUARD)
    placed = {name: guarded.array for name, guarded in memory.items()}
    say(Answer({name: (a.ctypes.data, a.nbytes) for name, a in placed.items()}))

    launch = kernel.launch(entry, placed)
    load = partial(
        host.load, cuda_source.read(kernel.cu), name=kernel.cu.name, defines=kernel.macros(dtype),
        include=kernel.cu.parent, entries=(launch.entry,),
    )  # fmt: skip
    launched = launch.entry, *launch.dims, launch.args, launch.shared
    groups: dict[str, Any] = {"cooperative": launch.cooperative, "cluster": launch.cluster}
    load(sanitize=True).launch(*launched, **groups)
    with suppress(Unavailable):  # no shared memory in the `.cu`, or another compiler
        load(races=True).launch(*launched, **groups)


def _forbid(address: int, nbytes: int) -> None:
    """Make the address sanitizer report every access to these bytes, which are outside of the arrays."""
    poison = ctypes.CDLL(None).__asan_poison_memory_region
    poison(ctypes.c_void_p(address), ctypes.c_size_t(nbytes))


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
        shape = kernel.result_shape({name: a.shape for name, a in arrays.items()})
        off = offsets_by_name(kernel, group.offsets)
        placed = {name: _allocated(driver, a.shape, a.dtype, off[name]) for name, a in arrays.items()}
        for name, array in arrays.items():
            if array.size:
                plain = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
                driver.memcpy_htod(placed[name].ptr, plain)
        output = _allocated(driver, shape, dtype.numpy, off[kernel.output])
        say(Answer(_places({**placed, kernel.output: output})))
        stream = driver.Stream()
        tuned, _ = stored.chosen(kernel, entry, dtype, cuda.card(index))
        on_stream(tuned, entry, dtype, Operands(placed, output, stream, index))()
        stream.synchronize()

    return launch


def _allocated(driver: Any, shape: tuple[int, ...], dtype: np.dtype, offset: int) -> DeviceArray:
    array = DeviceArray(tuple(shape), dtype, 0)
    memory = driver.mem_alloc(max(1, array.nbytes + offset))
    return DeviceArray(array.shape, dtype, int(memory) + offset, memory)


def _places(arrays: Mapping[str, DeviceArray]) -> Buffers:
    return {name: (a.ptr, a.nbytes) for name, a in arrays.items()}
