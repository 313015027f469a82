"""Work that keeps a GPU busy: the host enqueues it in chunks, and never lets the queue run empty."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

from cudalab.base import numbers
from cudalab.base.errors import LaunchError
from cudalab.device import driver

CHUNK = 2e-3  # seconds of work between two readings of the time
AHEAD = 2  # chunks that are enqueued at least before the host waits for the oldest
LONGER = 2.0  # times that a later look may take as long as the longest so far
FURTHEST = 0.5  # seconds of work that the host enqueues ahead, however long a look took
SAMPLES = 4  # chunks that are timed right after a load
MOST = 1000  # runs in a chunk
REUSED = 0.5  # of the time in a batch: where all runs take less under load, they do other work there
SLOWER = 1.1  # of that time: a run that takes more shows gaps or a lower clock
SKIPS = "a run takes {} \u00b5s {} and {} \u00b5s in a batch on new contents: do runs reuse earlier results?"
GAPS = (
    f"{{}} a run takes more than {SLOWER} times as long as hot: the host leaves gaps between launches, or the clock is "
    "lower under load"
)
BEAT = 0.2  # seconds between two signs of life; telling one takes some microseconds

T = TypeVar("T")


def paced(tell: Callable[[], object], now: Callable[[], float] = perf_counter) -> Callable[[], None]:
    """`tell`, called at the first call, and then where BEAT has gone by since."""
    due = now()

    def told() -> None:
        nonlocal due
        if (at := now()) >= due:
            due = at + BEAT
            tell()

    return told


class Load:
    """Work that is repeated on a stream until it is stopped."""

    def __init__(
        self, stream: Any, run: Callable[[], object], once: float, runs: int = 1,
        alive: Callable[[], object] = lambda: None,
    ) -> None:  # fmt: skip
        """`run` enqueues work of `once` seconds, which has so many `runs` of what is measured; `alive` is called while
        the load goes on, each time that a chunk has ended, but no more often than each BEAT.
        """
        self.alive = paced(alive)
        self._stream, self._handle, self._run = stream, ctypes.c_void_p(stream.handle), run
        self._repeats = int(np.clip(np.ceil(CHUNK / once), 1, max(MOST // runs, 1)))
        self.runs = runs * self._repeats  # in a chunk
        self.done = 0  # runs that have ended
        self._ahead = AHEAD
        self._free: list[driver.Event] = []
        self._edges = [driver.Event() for _ in range(2 * SAMPLES + 1)]
        self._under_way: deque[driver.Event] = deque()

    def advance(self) -> int:
        """Enqueue a chunk, wait for the oldest ones where too many are ahead, and return how many runs have ended."""
        self._chunk()
        self._under_way.append(mark := self._free.pop() if self._free else driver.Event())
        mark.record(self._handle)
        while len(self._under_way) > self._ahead or (self._under_way and self._under_way[0].over()):
            self._free.append(oldest := self._under_way.popleft())
            self._wait(oldest)
            self.done += self.runs
        return self.done

    def look(self, read: Callable[[], T]) -> T:
        """What `read` returns, under load. The host stays ahead by LONGER times what a call took, FURTHEST at most."""
        begun = perf_counter()
        value = read()
        took = min(LONGER * (perf_counter() - begun), FURTHEST)
        self._ahead = max(self._ahead, AHEAD + int(np.ceil(took / CHUNK)))
        return value

    def keep(self, seconds: float) -> int:
        """Run for `seconds`, and return how many runs have ended. The last chunks still run then."""
        end = perf_counter() + seconds
        while perf_counter() < end:
            self.advance()
        return self.done

    def samples(self, meanwhile: Callable[[], object] = lambda: None) -> list[float]:
        """Seconds a run of SAMPLES chunks, without a gap before and between them; `meanwhile` is called under load."""
        self._chunk()  # not timed: it keeps the GPU busy while the host enqueues the rest
        self._edges[0].record(self._handle)
        for edge in self._edges[1:]:  # the second half is not timed: it keeps the GPU busy meanwhile
            self._chunk()
            edge.record(self._handle)
        meanwhile()
        for edge in self._edges:
            self._wait(edge)
        self.stop()
        return [start.until(stop) / self.runs for start, stop in pairwise(self._edges[: SAMPLES + 1])]

    def stop(self) -> None:
        """Wait for all work that is under way."""
        while self._under_way:
            self._free.append(oldest := self._under_way.popleft())
            self._wait(oldest)
        self._stream.synchronize()

    def _wait(self, mark: driver.Event) -> None:
        """Wait for a chunk to end. It is a sign of life: a chunk that never ends is none."""
        mark.wait()
        self.alive()

    def _chunk(self) -> None:
        for _ in range(self._repeats):
            self._run()


class Beside:
    """Seconds of a run under load, each beside those of one in a batch on new contents that is timed right before."""

    def __init__(self, hot: Callable[[], float], where: str, notes: list[str], reused: float = REUSED) -> None:
        """`hot` takes a time of one run of the same work in a batch; `where` names the load, such as "in a burst".

        `reused`: as REUSED; 0 where times are too rough, or nothing proves the runs.
        """
        self._hot, self._where, self._notes, self._reused = hot, where, notes, reused
        self._batches: list[float] = []
        self._loads: list[float] = []

    def begin(self) -> None:
        """Time the batch."""
        self._batches.append(self._hot())

    def end(self, seconds: float) -> None:
        """A run under the load that followed took so long."""
        self._loads.append(seconds)

    def judge(self) -> None:
        """Raise LaunchError where the runs under load skip work; note where they take much longer."""
        batches, loads = self._batches, self._loads
        if max(loads) < self._reused * min(batches):
            took, beside = (numbers.three(1e6 * seconds) for seconds in (max(loads), min(batches)))
            raise LaunchError(SKIPS.format(took, self._where, beside))
        if median(loads) > SLOWER * median(batches):
            self._notes.append(GAPS.format(self._where))
