"""The processes that execute kernels: one at a time, forked by a process that has loaded no kernel.

Their replies are read as data that may be wrong.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import pickle
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import RLock

import msgspec

from cudalab.base import child, safe_path
from cudalab.base.errors import CrashError, Unavailable
from cudalab.host.channel import Channel
from cudalab.host.executor import Order, Reply, Shared
from cudalab.host.module import LastAccess
from cudalab.host.reserved import Region, make, region_of

FORK = b"fork"
GRACE = 10.0  # seconds that a process has to end by itself
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # threads would not survive the fork


class Crash(CrashError):
    """What a launch that ended its process left: `last`, where its module looks for races."""

    def __init__(self, text: str, last: LastAccess | None = None) -> None:
        super().__init__(text)
        self.last = last


class _Nursery:
    """The process that forks executors. It ends with this process, and the executors end with it."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._control, theirs = Channel.pair()
        self._asked = 0  # answers that nobody has read
        with theirs:
            fd = theirs.fileno()
            command = child.command("cudalab.host.executor.main", str(fd))
            environment = {**os.environ, **ENVIRONMENT, **safe_path.VARIABLE}
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=(fd,), env=environment)

    @property
    def alive(self) -> bool:
        return self.pid == os.getpid() and self._process.poll() is None

    def ask(self, message: bytes, files: Sequence[int] = ()) -> None:
        """Ask for a fork, or to reap an executor. The answer is read by `answer`, in the order of the questions."""
        self._asked += 1
        with suppress(OSError):  # it has ended: `answer` says how
            self._control.send(message, files)

    def answer(self) -> int:
        """The answer to the last question. Raises Unavailable where the process has ended."""
        try:
            while self._asked:
                found = int(self._control.receive()[0])
                self._asked -= 1
            return found
        except (EOFError, OSError):
            raise Unavailable(f"the process that executes kernels on the CPU {child.how(self.end())}") from None

    def end(self) -> int:
        """Let it end, and return its exit code."""
        self._control.close()
        try:
            return self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


class _Executor:
    """The process of one variant's launches. `end` must be called."""

    def __init__(self, nursery: _Nursery) -> None:
        self._nursery = nursery
        self._channel, theirs = Channel.pair()
        with theirs:
            nursery.ask(FORK, [theirs.fileno()])  # done while this process does other things
        self._pid = 0
        self._known: set[int] = set()  # numbers of the regions that it has mapped
        self._memory = make(ctypes.sizeof(LastAccess), 0)
        self._last = region_of(self._memory)

    def ask(self, order: Order, regions: Mapping[int, Region]) -> Reply:
        """Its reply to an order. Raises Crash where it ends, or sends what is none."""
        self._pid = self._pid or self._nursery.answer()
        regions = {**regions, self._last.number: self._last}
        new = [region for number, region in regions.items() if number not in self._known]
        shared = [Shared(r.number, r.size, r.around, r.watched) for r in new]
        message = pickle.dumps(order._replace(regions=shared, last=self._last.number))
        try:
            self._channel.send(message, [r.fd for r in new if r.fd is not None])
            reply = msgspec.json.decode(self._channel.receive()[0], type=Reply)
        except (EOFError, OSError):
            how, last = self._ended(), LastAccess.from_buffer_copy(self._memory)
            raise Crash(f"{order.named.get('entry', '')}: the process that ran it {how}", last) from None
        except (msgspec.DecodeError, ValueError) as error:
            what = f"{order.named.get('entry', '')} wrote to a file that is not its own"
            raise Crash(f"{what}: the process that ran it sent what is no reply ({error})") from None
        self._known |= regions.keys()
        return reply

    def _ended(self) -> str:
        """How it ended, as the end of a sentence."""
        self.end()
        try:
            return child.how(self._nursery.answer())
        except Unavailable as error:
            return f"ended, for {error}"

    def end(self) -> None:
        """Kill it, if it has not ended, and let it be reaped."""
        self._channel.close()
        if not self._nursery.alive:
            return
        if not self._pid:
            with suppress(Unavailable):
                self._pid = self._nursery.answer()
        if self._pid > 0:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)  # it is not reaped yet, so that the number is still its own
            self._nursery.ask(str(self._pid).encode())
        self._pid = -1


class _Running:
    """What runs for this process; a fork of it has its own."""

    nursery: _Nursery | None = None
    executor: _Executor | None = None


lock = RLock()


def begin() -> None:
    """Let the next launch run in a new process, which starts now."""
    with lock:
        end()
        if _Running.nursery is None or not _Running.nursery.alive:
            _Running.nursery = _Nursery()
        _Running.executor = _Executor(_Running.nursery)


def end() -> None:
    """End the executor: nothing of the kernels that it ran is left, nor the memory that it has mapped."""
    with lock:
        executor, _Running.executor = _Running.executor, None
        if executor:
            executor.end()


def ask(order: Order, regions: Mapping[int, Region]) -> Reply:
    """The executor's reply. Raises Crash where it ends, and Unavailable where there is none."""
    if _Running.executor is None or not (_Running.nursery and _Running.nursery.alive):
        begin()
    assert _Running.executor
    try:
        return _Running.executor.ask(order, regions)
    except BaseException:  # also where somebody interrupts: the reply to this order would answer the next one
        end()
        raise


@atexit.register
def _leave() -> None:
    if _Running.nursery and _Running.nursery.alive:
        end()
        _Running.nursery.end()
