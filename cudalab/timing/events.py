"""Times by CUDA events on one stream.

A spinning kernel holds the queue until the work and both events are in it, so no launch gap is counted. Work that waits
for the GPU inside cannot be held. bench/METHOD.md defines what is timed.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from time import perf_counter
from weakref import WeakKeyDictionary

import numpy as np

from cudalab.base.errors import LaunchError
from cudalab.device import cuda, driver
from cudalab.device.gpu import Gpu
from cudalab.spec.kernel import blocks
from cudalab.timing.work import Unproven, Work

COLD = 8  # samples a round
HOT_SPAN = 200e-6  # seconds that a batch lasts at least
HOT_LEAST, HOT_MOST = 4, 64  # runs in a batch: with a few launches each they fit the driver's queue of about 1,000
CALL_SPAN = 2e-3  # seconds of GPU work that a sample of host calls may enqueue
CALLS_LEAST, CALLS_MOST = 8, 50  # host calls a sample; they fit that queue too
HOLD_SECONDS = 0.2  # the kernel that holds the queue ends after this
ROUND_SPAN = 20e-3  # seconds that one kind of samples may take in a round; slow work gets fewer, at least one

OFF = 0.02  # of a time: events and the GPU's own timer may differ by this share and ...
OFF_SECONDS = 2e-6  # ... by this, which holds a timer that ticks once a microsecond

MARKS = ("cudalab_hold", "cudalab_stamp")  # the kernels around each held sample

IN_A_ROW = 5  # samples in which they differ by more

Run = Callable[[], object]


def affordable(most: int, once: float) -> int:
    """How many runs of `once` seconds a round takes: `most`, or as many as fit ROUND_SPAN."""
    return int(np.clip(ROUND_SPAN / once, 1, most))


class Timer:
    """Takes samples on a device's stream.

    `blocking` says whether the queue is held at all. It is not where CUDALAB_BLOCKING=0, nor under a profiler that runs
    one kernel at a time: the kernel that holds would never see its release. `flush` is one of `timing.FLUSHES`.
    """

    def __init__(self, device: Gpu, flush: str) -> None:
        pycuda, self.stream, self.flush = driver.pycuda(), device.stream, flush
        self._driver, self._handle = pycuda, ctypes.c_void_p(device.stream.handle)
        mapped = pycuda.host_alloc_flags.DEVICEMAP
        self._flags = pycuda.pagelocked_zeros(2, np.int32, mem_flags=mapped)
        base = int(self._flags.base.get_device_pointer())
        self._released, self._count, self._ticket = base, base + 4, 0
        self._stamps = pycuda.pagelocked_zeros(2, np.uint64, mem_flags=mapped)  # nanoseconds of the GPU's own timer
        self._stamped = int(self._stamps.base.get_device_pointer())
        self._cycles = int(HOLD_SECONDS * 1000 * device.attribute("CLOCK_RATE"))  # the attribute is in kHz
        self._hold = device.lab.get_function(MARKS[0]).prepare("PiqPP")
        self._stamp = device.lab.get_function(MARKS[1]).prepare("P")
        self._empty = device.lab.get_function("empty").prepare("")
        self._start, self._stop = driver.Event(), driver.Event()
        self._clear = _Clear(device, flush)
        # Seconds that the GPU's own timer counts beside the time between the events, and by how much it may be off.
        self._beside, self._slack = 0.0, OFF_SECONDS
        self._contradicted: WeakKeyDictionary[Work, int] = WeakKeyDictionary()  # samples in a row
        self.blocking = os.environ.get("CUDALAB_BLOCKING") != "0" and self.can_hold(self.empty)
        spans = [self._one(Unproven(self.empty), self.blocking) for _ in range(40)]
        self.on_cpu = not any(span for _, span in spans)  # this GPU is a stand-in, which has no timer of its own
        self.launch = float(np.median([seconds for seconds, _ in spans[20:]]))  # seconds of an empty kernel
        beside = [span - seconds for seconds, span in spans[20:]]
        self._beside, self._slack = float(np.median(beside)), max(OFF_SECONDS, 2 * (max(beside) - min(beside)))

    def can_hold(self, run: Run) -> bool:
        """False if the hold expired: the work waits for the stream, which waits for the work."""
        expired = self.expired
        self._one(Unproven(run), True)
        return self.expired == expired

    @property
    def expired(self) -> int:
        """How many holds have expired."""
        return int(self._flags[1])

    def once(self, run: Run, held: bool) -> float:
        """Seconds of one run, roughly."""
        return float(np.median([self._one(Unproven(run), held)[0] for _ in range(3)]))

    def batch(self, run: Run, once: float, held: bool) -> int:
        """How many runs of `once` seconds make a batch of HOT_SPAN, and still fit into the driver's queue."""
        runs = int(np.clip(np.ceil(HOT_SPAN / once), affordable(HOT_LEAST, once), HOT_MOST))
        while held and runs > HOT_LEAST and not self.can_hold(lambda: [run() for _ in range(runs)]):  # noqa: B023
            runs //= 2
        return runs

    def cold(self, work: Work, n: int, held: bool) -> list[float]:
        """Seconds of n single runs, each of which begins with none of its data in L2."""
        return self._samples(work, n, held, touch=False)

    def hot(self, work: Work, held: bool) -> list[float]:
        """Seconds a run, of those back to back between two events, after one that is not timed."""
        return [t / work.runs for t in self._samples(work, 1, held, touch=True)]

    def replay(self, work: Work, cold: bool) -> list[float]:
        """Seconds a run, of a graph."""
        return [t / work.runs for t in self._samples(work, 1, self.blocking, touch=not cold)]

    def calls(self, once: float) -> int:
        """How many calls of `once` seconds of GPU time make a sample of host time."""
        return int(np.clip(np.ceil(CALL_SPAN / once), affordable(CALLS_LEAST, once), CALLS_MOST))

    def host(self, work: Work) -> list[float]:
        """Seconds that the host spends on a run, of several that do not wait for the GPU."""
        work.before()
        self.stream.synchronize()
        start = perf_counter()
        work.run()
        taken = perf_counter() - start
        self.stream.synchronize()
        work.verify()
        return [taken / work.runs]

    def empty(self) -> None:
        """Enqueue a kernel that does nothing."""
        self._empty.prepared_async_call((1, 1), (1, 1, 1), self.stream)

    def floors(self) -> dict[str, list[float]]:
        """Samples of nothing and of an empty kernel, by name."""
        found = {}
        for name, run in (("empty event pair", lambda: None), ("empty kernel", self.empty)):
            self._samples(Unproven(run), 20, self.blocking)
            found[name] = self._samples(Unproven(run), 100, self.blocking)
        return found

    def _samples(self, work: Work, n: int, held: bool, touch: bool | None = None) -> list[float]:
        """Seconds of each of n pieces of work, each between two events. `touch`: what stands before it; None: nothing.

        Raises LaunchError where the GPU's own timer contradicts the events.
        """
        found = []
        for _ in range(n):
            work.before()
            if touch is not None:
                self._clear()
            if touch:
                work.touch()
            seconds, span = self._one(work, held)
            if held and not self.on_cpu:
                self._agree(work, seconds, span - self._beside)
            work.verify()
            found.append(seconds)
        return found

    def _agree(self, work: Work, seconds: float, other: float) -> None:
        """Raise LaunchError where the GPU's own timer contradicts the events IN_A_ROW times."""
        apart = abs(other - seconds) > OFF * seconds + self._slack
        self._contradicted[work] = self._contradicted.get(work, 0) + 1 if apart else 0
        if self._contradicted[work] >= IN_A_ROW:
            raise LaunchError(
                f"the events measure {1e6 * seconds:.3g} \u00b5s, but the GPU's own timer {1e6 * other:.3g} \u00b5s: "
                "one of the clocks was replaced, or is faulty"
            )

    def _one(self, work: Work, held: bool) -> tuple[float, float]:
        """Seconds between two events around some work, and between two stamps around the events."""
        try:
            if held:
                self._ticket += 1
                self._hold.prepared_async_call(
                    (1, 1), (1, 1, 1), self.stream, self._released, self._ticket, self._cycles, self._count,
                    self._stamped,
                )  # fmt: skip
            self._start.record(self._handle)
            work.run()
            self._stop.record(self._handle)
            self._stamp.prepared_async_call((1, 1), (1, 1, 1), self.stream, self._stamped + 8)
        finally:
            self._flags[0] = self._ticket  # release the queue, also after an error
        self.stream.synchronize()  # enqueueing the next one meanwhile would cost this one up to 0.5 us
        return self._start.until(self._stop), 1e-9 * (int(self._stamps[1]) - int(self._stamps[0]))


class _Clear:
    """Leaves nothing of a kernel on the chip: fills L2 with lines of a scratch buffer, and shared memory with words.

    The lines of L2 are clean (written, then read: 2 x L2) or dirty (written).
    """

    def __init__(self, device: Gpu, flush: str) -> None:
        self._driver, self._stream, self._dirty = driver.pycuda(), device.stream, flush == "dirty"
        self._sweep = device.lab.get_function("sweep").prepare("PqP")
        self._bytes = max(2 * device.attribute("L2_CACHE_SIZE"), 1 << 22) // 16 * 16
        self._scratch = self._driver.mem_alloc(self._bytes)
        multiprocessors = device.attribute("MULTIPROCESSOR_COUNT")
        self._blocks, self._multiprocessors = 8 * multiprocessors, multiprocessors
        self._reset_persisting = driver.libcuda().cuCtxResetPersistingL2Cache
        scrub = cuda.compiled(cuda.SCRUB.read_text(), cuda.SCRUB.name).get_function("scrub")
        self._shared = device.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
        scrub.set_attribute(self._driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, self._shared)
        self._scrub = scrub.prepare("IiP")

    def __call__(self) -> None:
        """Enqueue the work."""
        at = int(self._scratch)
        self._scrub.prepared_async_call(
            (self._multiprocessors, 1), (1024, 1, 1), self._stream, 0x7FC0DE, self._shared // 4, at,
            shared_size=self._shared,
        )  # fmt: skip
        self._reset_persisting()  # lines that a kernel asked L2 to keep would outlive the flush: 5 MB on an H200
        self._driver.memset_d32_async(at, 0, self._bytes // 4, self._stream)
        if not self._dirty:
            self._sweep.prepared_async_call(
                (self._blocks, 1), (512, 1, 1), self._stream, at, blocks(self._bytes, 16), at
            )
