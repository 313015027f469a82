"""Work that keeps a GPU busy: the host enqueues it in chunks, and never lets the queue run empty."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable
from itertools import cycle, pairwise
from time import perf_counter
from typing import Any

import numpy as np

from cudalab.device import driver

CHUNK = 2e-3  # seconds of work between two readings of the time
AHEAD = 2  # chunks that are enqueued before the host waits for the oldest
SAMPLES = 4  # chunks that are timed right after a load
MOST = 1000  # runs in a chunk


class Load:
    """Work that is repeated on a stream until it is stopped."""

    def __init__(self, stream: Any, run: Callable[[], object], once: float, runs: int = 1) -> None:
        """`run` enqueues work of `once` seconds, which has so many `runs` of what is measured."""
        self._stream, self._handle, self._run = stream, ctypes.c_void_p(stream.handle), run
        self._repeats = int(np.clip(np.ceil(CHUNK / once), 1, max(MOST // runs, 1)))
        self.runs = runs * self._repeats  # in a chunk
        self.done = 0  # runs that have ended
        self._marks = cycle([driver.Event() for _ in range(AHEAD + 1)])
        self._edges = [driver.Event() for _ in range(SAMPLES + 1)]
        self._under_way: deque[driver.Event] = deque()

    def advance(self) -> int:
        """Enqueue a chunk, wait until at most AHEAD are under way, and return how many runs have ended."""
        self._chunk()
        self._under_way.append(mark := next(self._marks))
        mark.record(self._handle)
        if len(self._under_way) > AHEAD:
            self._under_way.popleft().wait()
            self.done += self.runs
        return self.done

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
        for edge in self._edges[1:]:
            self._chunk()
            edge.record(self._handle)
        for _ in range(SAMPLES):
            self._chunk()  # not timed: it keeps the GPU busy meanwhile
        meanwhile()
        self.stop()
        return [start.until(stop) / self.runs for start, stop in pairwise(self._edges)]

    def stop(self) -> None:
        """Wait for all work that is under way."""
        self._stream.synchronize()
        self._under_way.clear()

    def _chunk(self) -> None:
        for _ in range(self._repeats):
            self._run()
