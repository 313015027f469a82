"""The processes that execute kernels: one for each variant, forked by a process that has loaded no kernel.

Their replies are read as data that may be wrong.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import pickle
import signal
import subprocess
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import RLock

import msgspec

from cudalab.base import child, safe_path
from cudalab.base.errors import CrashError, LaunchError
from cudalab.host.channel import Channel
from cudalab.host.executor import Order, Reply, Shared
from cudalab.host.module import LastAccess
from cudalab.host.reserved import Region, make, numbers, region_of

FORK = b"fork"
LIVING = 16  # executors at a time
MOST = 1 << 24  # bytes that an executor may hold when their arrays are given back
GRACE = 10.0  # seconds that a process has to end by itself
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # threads would not survive the fork


class Crash(CrashError):
    """What a launch that ended its process left: `last`, where its module looks for races."""

    def __init__(self, text: str, last: LastAccess | None = None) -> None:
        super().__init__(text)
        self.last = last


class Gone(LaunchError):
    """The process that forks executors has ended: no launch is judged, and none is passed over."""


@dataclass(eq=False)
class _Answer:
    """An answer of the nursery, once it is read."""

    value: int | None = None


class _Nursery:
    """The process that forks executors. It ends with this process, and the executors end with it."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._control, theirs = Channel.pair()
        self._asked: deque[_Answer] = deque()  # questions without an answer, in their order
        with theirs:
            fd = theirs.fileno()
            command = child.command("cudalab.host.executor.main", str(fd))
            environment = {**os.environ, **ENVIRONMENT, **safe_path.VARIABLE}
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=(fd,), env=environment)

    @property
    def alive(self) -> bool:
        return self.pid == os.getpid() and self._process.poll() is None

    def ask(self, message: bytes, files: Sequence[int] = ()) -> _Answer:
        """Ask for a fork, or to reap an executor; `wait` for the answer."""
        self._asked.append(answer := _Answer())
        with suppress(OSError):  # it has ended: `wait` says how
            self._control.send(message, files)
        return answer

    def wait(self, answer: _Answer) -> int:
        """The number of the process that was forked, or the exit code of the one that was reaped, or minus its signal.

        Raises Gone where this process has ended.
        """
        try:
            while answer.value is None:
                self._asked.popleft().value = int(self._control.receive()[0])
            return answer.value
        except (EOFError, OSError):
            raise Gone(f"the process that executes kernels on the CPU {child.how(self.end())}") from None

    def end(self) -> int:
        """Let it end, and return its exit code."""
        self._control.close()
        try:
            return self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


class _Executor:
    """The process of the launches of one variant. `end` must be called."""

    def __init__(self, nursery: _Nursery) -> None:
        self._nursery = nursery
        self._channel, theirs = Channel.pair()
        with theirs:
            self._forked = nursery.ask(FORK, [theirs.fileno()])  # done while this process does other things
        self._ended = False
        self._mapped: dict[int, int] = {}  # bytes of the regions that it has mapped, by number
        self._memory = make(ctypes.sizeof(LastAccess), 0)
        self._last = region_of(self._memory)

    def ask(self, order: Order, regions: Mapping[int, Region]) -> Reply:
        """Its reply to an order. Raises Crash where it ends, or sends what is none."""
        self._nursery.wait(self._forked)
        regions = {**regions, self._last.number: self._last}
        new = [region for number, region in regions.items() if number not in self._mapped]
        shared = [Shared(r.number, r.size, r.around, r.watched) for r in new]
        gone = self._mapped.keys() - numbers()
        message = pickle.dumps(order._replace(regions=shared, gone=[*gone], last=self._last.number))
        try:
            self._channel.send(message, [r.fd for r in new if r.fd is not None])
            reply = msgspec.json.decode(self._channel.receive()[0], type=Reply)
        except (EOFError, OSError):
            how, last = self._how(), LastAccess.from_buffer_copy(self._memory)
            raise Crash(f"{order.named.get('entry', '')}: the process that ran it {how}", last) from None
        except (msgspec.DecodeError, ValueError) as error:
            what = f"{order.named.get('entry', '')} wrote to a file that is not its own"
            raise Crash(f"{what}: the process that ran it sent what is no reply ({error})") from None
        self._mapped = {n: size for n, size in self._mapped.items() if n not in gone} | {r.number: r.size for r in new}
        return reply

    @property
    def nbytes(self) -> int:
        """Bytes of the regions that it has mapped."""
        return sum(self._mapped.values())

    def _how(self) -> str:
        """How it ended, as the end of a sentence."""
        try:
            answer = self.end()
            return child.how(self._nursery.wait(answer)) if answer else "ended"
        except Gone as error:
            return f"ended: {error}"

    def end(self) -> _Answer | None:
        """Kill it, if it has not ended, and let it be reaped. None where the process that reaps it has ended."""
        self._channel.close()
        if self._ended or not self._nursery.alive:
            return None
        self._ended = True
        pid = self._nursery.wait(self._forked)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)  # it is not reaped yet, so that the number is still its own
        return self._nursery.ask(str(pid).encode())


@dataclass
class _Running:
    """What runs for this process; a fork of it has its own."""

    nursery: _Nursery | None = None
    executors: OrderedDict[object, _Executor] = field(default_factory=OrderedDict)  # by what they run
    variant: object = None  # what runs next


running, lock = _Running(), RLock()


def prepare() -> None:
    """Start the process that forks executors, and do not wait until it has loaded NumPy."""
    with lock:
        if running.nursery is None or not running.nursery.alive:
            end()
            running.nursery = _Nursery()


def begin(variant: object = None) -> None:
    """Let the next launches run in the process of this variant, or of nobody: a new one, unless there is one."""
    with lock:
        prepare()
        assert running.nursery
        if variant is None or variant not in running.executors:
            end(variant)
            running.executors[variant] = _Executor(running.nursery)
        running.executors.move_to_end(variant)
        running.variant = variant
        if len(running.executors) > LIVING:
            end(next(iter(running.executors)))


def end(*variants: object) -> None:
    """End the executors of these variants, or all: nothing of what they ran is left, nor the memory that they have."""
    with lock:
        for variant in variants or [*running.executors]:
            if executor := running.executors.pop(variant, None):
                with suppress(Gone):
                    executor.end()


def release() -> None:
    """End executors that hold much memory: the arrays that they have mapped are given back."""
    with lock:
        for variant in [name for name, one in running.executors.items() if one.nbytes > MOST]:
            end(variant)


def ask(order: Order, regions: Mapping[int, Region]) -> Reply:
    """The executor's reply. Raises Crash where it ends, and Gone where there is none."""
    if running.variant not in running.executors or not (running.nursery and running.nursery.alive):
        begin(running.variant)
    try:
        return running.executors[running.variant].ask(order, regions)
    except BaseException:  # also where somebody interrupts: the reply to this order would answer the next one
        end(running.variant)
        raise


@atexit.register
def _leave() -> None:
    if running.nursery and running.nursery.alive:
        end()
        running.nursery.end()
