"""Times by CUDA events on one stream: cold, hot, graph, and the host's own time for a call.

Each is defined in bench/METHOD.md. The queue is held by a spinning kernel until the work and both events are in
it, so no launch gap is counted; a variant that waits for the GPU inside cannot be held, and is marked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from time import perf_counter
from typing import Any

import numpy as np

from cudalab.backends import Bound
from cudalab.devices import Clock
from cudalab.devices.graph import Graph
from cudalab.errors import CudalabError
from cudalab.spec import blocks

COLD = 5  # samples a round
HOT_SPAN = 200e-6  # seconds that a batch lasts at least
HOT_MOST = 64  # runs in a batch: with a few launches each, still below the driver's queue of about 1,000
CALLS = 50  # host calls a sample, below that queue as well
HOLD_SECONDS = 0.2  # a held queue lets go after this
NOT_HELD = "waits for the GPU inside: the queue was not held, launch gaps are counted"


class Timer:
    """Clocks on one stream of one device."""

    def __init__(self, lab: Any, stream: Any, device: Any) -> None:
        import pycuda.driver as driver

        self._driver, self.stream = driver, stream
        attribute, known = device.get_attribute, driver.device_attribute
        self._flags = driver.pagelocked_zeros(2, np.int32, mem_flags=driver.host_alloc_flags.DEVICEMAP)
        base = int(self._flags.base.get_device_pointer())
        self._released, self._expired, self._ticket = base, base + 4, 0
        self._cycles = int(HOLD_SECONDS * 1000 * attribute(known.CLOCK_RATE))  # the attribute is in kHz
        self._hold = lab.get_function("hold").prepare("PiqP")
        self._empty = lab.get_function("empty").prepare("")
        self._sweep = lab.get_function("sweep").prepare("PqP")
        self._scratch_bytes = max(2 * attribute(known.L2_CACHE_SIZE), 1 << 22) // 16 * 16
        self._scratch = driver.mem_alloc(self._scratch_bytes)
        self._sweep_blocks = 8 * attribute(known.MULTIPROCESSOR_COUNT)
        self._events: list[tuple[Any, Any]] = []
        self._graphs: list[Graph] = []

    def clocks(self, bound: Bound, modes: Collection[str], notes: list[str]) -> dict[str, Clock]:
        found: dict[str, Clock] = {}
        held = self._can_hold(bound.run)
        if not held:
            notes.append(NOT_HELD)
        once = float(np.median(self._sample(bound.run, 3, held)))
        batch = int(np.clip(np.ceil(HOT_SPAN / once), 4, HOT_MOST))
        if "launch" in modes:
            found["cold"] = Clock(lambda: self._sample(bound.run, COLD, held, flush=True), bound)
            found["hot"] = Clock(lambda: self._batch(bound.run, batch, held), bound)
            found["call"] = Clock(lambda: self._host(bound.run), bound)
        if "graph" in modes:
            try:
                graph = Graph(bound, batch, self.stream)
            except CudalabError as error:
                notes.append(f"no graph: {error}")
            else:
                self._graphs.append(graph)
                found["graph"] = Clock(lambda: self._per_run(graph.work.run, batch), graph.work)
        return found

    def calibrate(self, modes: Collection[str]) -> dict[str, list[float]]:
        """What the clocks measure around nothing, an empty kernel, and an empty graph node."""

        def empty() -> None:
            self._empty.prepared_async_call((1, 1), (1, 1, 1), self.stream)

        nothing: Callable[[], None] = lambda: None  # noqa: E731
        for work in (nothing, empty):
            self._sample(work, 20, True)
        found = {
            "empty event pair": self._sample(nothing, 100, True),
            "empty kernel": self._sample(empty, 100, True),
        }
        if "graph" in modes:
            try:
                graph = Graph(Bound(empty, lambda: None), HOT_MOST, self.stream)
            except CudalabError:
                return found  # every row will say why
            found["empty graph node"] = [t for _ in range(50) for t in self._per_run(graph.work.run, HOT_MOST)]
            graph.close()
        return found

    def release(self) -> None:
        """Free what the clocks of one group hold."""
        for graph in self._graphs:
            graph.close()
        self._graphs.clear()

    def _sample(self, run: Callable[[], object], n: int, held: bool, flush: bool = False) -> list[float]:
        """Seconds of each of n single runs, each between two events; with flush, nothing of it in L2."""
        pairs = self._pairs(n)
        for start, stop in pairs:
            if flush:
                self._flush()
            self._between(start, stop, run, held)
        return self._elapsed(pairs)

    def _batch(self, run: Callable[[], object], n: int, held: bool) -> list[float]:
        """Seconds a run, of n runs back to back between two events."""

        def work() -> None:
            for _ in range(n):
                run()

        return [t / n for t in self._sample(work, 1, held)]

    def _per_run(self, replay: Callable[[], object], runs: int) -> list[float]:
        return [t / runs for t in self._sample(replay, 1, True)]

    def _host(self, run: Callable[[], object]) -> list[float]:
        """Seconds that the host spends on a call while the queue is never full."""
        self.stream.synchronize()
        start = perf_counter()
        for _ in range(CALLS):
            run()
        taken = perf_counter() - start
        self.stream.synchronize()
        return [taken / CALLS]

    def _between(self, start: Any, stop: Any, run: Callable[[], object], held: bool) -> None:
        if held:
            self._ticket += 1
            self._hold.prepared_async_call(
                (1, 1), (1, 1, 1), self.stream, self._released, self._ticket, self._cycles, self._expired
            )
        start.record(self.stream)
        run()
        stop.record(self.stream)
        self._flags[0] = self._ticket

    def _can_hold(self, run: Callable[[], object]) -> bool:
        """False if the hold expired: the work inside waited for the stream that waits for it."""
        expired = int(self._flags[1])
        self._sample(run, 1, True)
        return int(self._flags[1]) == expired

    def _flush(self) -> None:
        """Fill L2 with lines of the scratch buffer, and leave them clean: write 2 x L2, then read it."""
        self._driver.memset_d32_async(int(self._scratch), 0, self._scratch_bytes // 4, self.stream)
        self._sweep.prepared_async_call(
            (self._sweep_blocks, 1), (512, 1, 1), self.stream,
            int(self._scratch), blocks(self._scratch_bytes, 16), int(self._scratch),
        )  # fmt: skip

    def _pairs(self, n: int) -> list[tuple[Any, Any]]:
        while len(self._events) < n:
            self._events.append((self._driver.Event(), self._driver.Event()))
        return self._events[:n]

    def _elapsed(self, pairs: list[tuple[Any, Any]]) -> list[float]:
        self.stream.synchronize()
        return [start.time_till(stop) * 1e-3 for start, stop in pairs]
