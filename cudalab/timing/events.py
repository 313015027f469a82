"""Times by CUDA events on one stream.

A spinning kernel holds the queue until the work and both events are in it, so no launch gap is counted. Work that waits
for the GPU inside cannot be held. bench/METHOD.md defines what is timed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from cudalab.device import driver
from cudalab.device.gpu import Gpu
from cudalab.spec.kernel import blocks

COLD = 8  # samples a round
HOT_SPAN = 200e-6  # seconds that a batch lasts at least
HOT_LEAST, HOT_MOST = 4, 64  # runs in a batch: with a few launches each they fit the driver's queue of about 1,000
CALL_SPAN = 2e-3  # seconds of GPU work that a sample of host calls may enqueue
CALLS_LEAST, CALLS_MOST = 8, 50  # host calls a sample; they fit that queue too
HOLD_SECONDS = 0.2  # the kernel that holds the queue ends after this
ROUND_SPAN = 20e-3  # seconds that one kind of samples may take in a round; slow work gets fewer, at least one

Run = Callable[[], object]


def affordable(most: int, once: float) -> int:
    """How many runs of `once` seconds a round takes: `most`, or as many as fit ROUND_SPAN."""
    return int(np.clip(ROUND_SPAN / once, 1, most))


class Timer:
    """Takes samples on a device's stream.

    `blocking` says whether the queue is held at all. It is not where CUDALAB_BLOCKING=0, nor under a profiler that runs
    one kernel at a time: the kernel that holds would never see its release.
    """

    def __init__(self, device: Gpu) -> None:
        self._driver, self.stream = driver.pycuda(), device.stream
        self._flags = self._driver.pagelocked_zeros(2, np.int32, mem_flags=self._driver.host_alloc_flags.DEVICEMAP)
        base = int(self._flags.base.get_device_pointer())
        self._released, self._count, self._ticket = base, base + 4, 0
        self._cycles = int(HOLD_SECONDS * 1000 * device.attribute("CLOCK_RATE"))  # the attribute is in kHz
        self._hold = device.lab.get_function("hold").prepare("PiqP")
        self._empty = device.lab.get_function("empty").prepare("")
        self._sweep = device.lab.get_function("sweep").prepare("PqP")
        self._scratch_bytes = max(2 * device.attribute("L2_CACHE_SIZE"), 1 << 22) // 16 * 16
        self._scratch = self._driver.mem_alloc(self._scratch_bytes)
        self._sweep_blocks = 8 * device.attribute("MULTIPROCESSOR_COUNT")
        self._reset_persisting = driver.libcuda().cuCtxResetPersistingL2Cache
        self._events: list[tuple[Any, Any]] = []
        self.blocking = os.environ.get("CUDALAB_BLOCKING") != "0" and self.can_hold(self.empty)

    def can_hold(self, run: Run) -> bool:
        """False if the hold expired: the work waits for the stream, which waits for the work."""
        expired = self.expired
        self._sample(run, 1, True)
        return self.expired == expired

    @property
    def expired(self) -> int:
        """How many holds have expired."""
        return int(self._flags[1])

    def once(self, run: Run, held: bool) -> float:
        """Seconds of one run, roughly."""
        return float(np.median(self._sample(run, 3, held)))

    def batch(self, run: Run, once: float, held: bool) -> int:
        """How many runs of `once` seconds make a batch of HOT_SPAN, and still fit into the driver's queue."""
        runs = int(np.clip(np.ceil(HOT_SPAN / once), affordable(HOT_LEAST, once), HOT_MOST))
        while held and runs > HOT_LEAST and not self.can_hold(lambda: [run() for _ in range(runs)]):  # noqa: B023
            runs //= 2
        return runs

    def cold(self, run: Run, n: int, held: bool) -> list[float]:
        """Seconds of n single runs, each of which begins with none of its data in L2."""
        return self._sample(run, n, held, flush=True)

    def hot(self, run: Run, runs: int, held: bool) -> list[float]:
        """Seconds a run, of `runs` back to back between two events."""

        def work() -> None:
            for _ in range(runs):
                run()

        return [t / runs for t in self._sample(work, 1, held)]

    def replay(self, replay: Run, runs: int, flush: bool) -> list[float]:
        """Seconds a run, of a graph that holds `runs`."""
        return [t / runs for t in self._sample(replay, 1, self.blocking, flush)]

    def calls(self, once: float) -> int:
        """How many calls of `once` seconds of GPU time make a sample of host time."""
        return int(np.clip(np.ceil(CALL_SPAN / once), affordable(CALLS_LEAST, once), CALLS_MOST))

    def host(self, run: Run, calls: int) -> list[float]:
        """Seconds that the host spends on a call, of `calls` that do not wait for the GPU."""
        self.stream.synchronize()
        start = perf_counter()
        for _ in range(calls):
            run()
        taken = perf_counter() - start
        self.stream.synchronize()
        return [taken / calls]

    def empty(self) -> None:
        """Enqueue a kernel that does nothing."""
        self._empty.prepared_async_call((1, 1), (1, 1, 1), self.stream)

    def floors(self) -> dict[str, list[float]]:
        """Samples of nothing and of an empty kernel, by name."""
        found = {}
        for name, work in (("empty event pair", lambda: None), ("empty kernel", self.empty)):
            self._sample(work, 20, self.blocking)
            found[name] = self._sample(work, 100, self.blocking)
        return found

    def _sample(self, run: Run, n: int, held: bool, flush: bool = False) -> list[float]:
        """Seconds of each of n pieces of work, each between two events."""
        while len(self._events) < n:
            self._events.append((self._driver.Event(), self._driver.Event()))
        try:
            for start, stop in self._events[:n]:
                if flush:
                    self._flush()
                self._between(start, stop, run, held)
                self.stream.synchronize()  # enqueueing the next one meanwhile would cost this one up to 0.5 us
        finally:
            self._flags[0] = self._ticket  # release the queue, also after an error
        return [start.time_till(stop) * 1e-3 for start, stop in self._events[:n]]

    def _between(self, start: Any, stop: Any, run: Run, held: bool) -> None:
        if held:
            self._ticket += 1
            self._hold.prepared_async_call(
                (1, 1), (1, 1, 1), self.stream, self._released, self._ticket, self._cycles, self._count
            )
        start.record(self.stream)
        run()
        stop.record(self.stream)
        self._flags[0] = self._ticket

    def _flush(self) -> None:
        """Fill L2 with lines of the scratch buffer, and leave them clean: write 2 x L2, then read it."""
        self._reset_persisting()  # lines that a kernel asked L2 to keep would outlive the flush: about 5 MB on an H200
        self._driver.memset_d32_async(int(self._scratch), 0, self._scratch_bytes // 4, self.stream)
        self._sweep.prepared_async_call(
            (self._sweep_blocks, 1), (512, 1, 1), self.stream,
            int(self._scratch), blocks(self._scratch_bytes, 16), int(self._scratch),
        )  # fmt: skip
