"""The process that executes a `.cu`: it loads the compiled code, and the process that judges does not.

`main` runs in a process that has loaded NumPy and no kernel. It forks an executor for each socket that it gets. An
executor takes orders until its socket closes or it is killed. An order is pickled, since it comes from the judge; a
reply is JSON, which the judge checks: a kernel may write whatever it likes to the socket.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import mmap
import os
import pickle
import resource
import signal
import socket
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from cudalab.base.child import end_with
from cudalab.base.errors import CudalabError, LaunchError, Unavailable
from cudalab.host.channel import Channel
from cudalab.host.compiler import Built
from cudalab.host.confined import confine, version
from cudalab.host.module import Ends, LastAccess, Module
from cudalab.host.reserved import Region, make, region_of
from cudalab.spec import dtype as _dtypes  # noqa: F401 (loads ml_dtypes before the first fork)


class Shared(NamedTuple):
    """A region that an order uses for the first time; its file comes with the message."""

    number: int
    size: int
    around: int
    watched: bool


class Array(NamedTuple):
    """An array in the region of this number."""

    region: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype


class Order(NamedTuple):
    """A call of a method of a `Module`: its arguments by name, and in `args` those of a launch.

    `gone` are the numbers of regions that no order uses again; `last` is that of the region that gets a `LastAccess`.
    """

    built: Built
    workers: int
    reach: int
    method: str
    named: dict[str, Any]
    args: list[Any] | None = None  # Array, or a scalar of NumPy
    regions: Sequence[Shared] = ()
    gone: Sequence[int] = ()
    last: int = 0


class Reply(msgspec.Struct):
    """What came of an order. `kind`: the class of the error that it raised, whose text is `text`."""

    kind: str = ""
    text: str = ""
    remarks: dict[str, str] = {}
    undefined_reads: dict[int, str] = {}
    used: dict[int, list[str]] = {}  # by number of a region, the sides beside it that were used
    ends: tuple[dict[int, int], list[tuple[int, int, int]]] | None = None  # an `Ends`, with positions for addresses


def main(control: str) -> None:
    """Fork an executor for each socket that arrives; a message without one is the number of an executor to reap."""
    judge = Channel(socket.socket(fileno=int(control)))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the judge's
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a kernel that crashes leaves no file
    _used({0}, {0: make(1, mmap.PAGESIZE, True)})  # loads what each executor needs
    msgspec.json.encode(Reply())
    version()
    gc.freeze()
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            message, files = judge.receive()
            answer = _fork(judge, files[0]) if files else _reaped(int(message))
            judge.send(str(answer).encode())
    os._exit(0)  # nothing is left to clean up, and the judge waits


def _reaped(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _fork(control: Channel, fd: int) -> int:
    """The number of a new process that serves this socket; it ends with this process."""
    parent = os.getpid()
    if pid := os.fork():
        os.close(fd)
        return pid
    try:
        end_with(parent)
        confine()
        control.close()
        with contextlib.suppress(EOFError, ConnectionError):
            _serve(Channel(socket.socket(fileno=fd)))
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _serve(judge: Channel) -> None:
    modules: dict[Path, Module] = {}
    regions: dict[int, mmap.mmap] = {}
    while True:
        message, files = judge.receive()
        order: Order = pickle.loads(message)
        for number in order.gone:
            del regions[number]
        for new, file in zip(order.regions, files, strict=True):
            regions[new.number] = _mapped(new, file)
        judge.send(msgspec.json.encode(_done(order, modules, regions)))


def _mapped(new: Shared, file: int) -> mmap.mmap:
    try:
        return make(new.size, new.around, new.watched, fd=file)
    except Unavailable:  # a limit on address space
        return make(new.size, 0, fd=file)


def _done(order: Order, modules: dict[Path, Module], regions: dict[int, mmap.mmap]) -> Reply:
    reply = Reply()
    try:
        if (module := modules.get(order.built.library)) is None:
            module = modules[order.built.library] = Module(order.built, order.workers)
            module.names_places = False  # the judge can run the program that does it
            module.leave_last(region_of(regions[order.last]).start)
        module.reach = order.reach
        args = None if order.args is None else [_unpacked(one, regions) for one in order.args]
        _name_arrays(region_of(regions[order.last]).start, args or ())
        given = order.named if args is None else {**order.named, "args": args}
        result = getattr(module, order.method)(**given)
        if isinstance(result, Ends) and args is not None:
            reply.ends = _by_position(result, args)
        reply.remarks, reply.undefined_reads = module.remarks, module.undefined_reads
    except CudalabError as error:
        reply.kind, reply.text = type(error).__name__, str(error)
    except Exception as error:  # such as a library that cannot be loaded
        reply.kind, reply.text = LaunchError.__name__, f"{type(error).__name__}: {error}"
    ctypes.CDLL(None).fflush(None)  # what the kernel printed
    reply.used = _used({one.region for one in order.args or () if isinstance(one, Array)}, regions)
    return reply


def _unpacked(one: Any, regions: dict[int, mmap.mmap]) -> Any:
    if not isinstance(one, Array):
        return one
    memory = regions[one.region]
    return np.ndarray(one.shape, one.dtype, memory, region_of(memory).around + one.offset, one.strides)


def _name_arrays(place: int, args: Sequence[Any]) -> None:
    """Say in the `LastAccess` at this address where the arrays of a launch are."""
    last = LastAccess.from_address(place)
    last.code = 0
    arrays = [one for one in args if isinstance(one, np.ndarray) and one.size]
    for i, one in enumerate(arrays[: len(last.arrays)]):
        last.arrays[i][:] = one.ctypes.data, one.ctypes.data + one.nbytes - 1


def _by_position(ends: Ends, args: Sequence[Any]) -> tuple[dict[int, int], list[tuple[int, int, int]]]:
    """`ends` with the position of an argument for each address."""
    at = {one.ctypes.data: i for i, one in reversed([*enumerate(args)]) if isinstance(one, np.ndarray)}
    written = {at[address]: end for address, end in ends.written.items()}
    return written, [(code, at[address], end) for code, address, end in ends.read]


def _used(numbers: set[int], regions: dict[int, mmap.mmap]) -> dict[int, list[str]]:
    """The sides that were used beside each of these regions, which are as they were again."""
    found: dict[int, list[str]] = {}
    for number in numbers:
        region: Region = region_of(memory := regions[number])
        if sides := region.touched():
            found[number] = sorted(sides)
            for start in (0, region.around + region.size):
                memory.madvise(mmap.MADV_DONTNEED, start, region.around)
    return found
