"""Times of a device under load: its clock and power depend on the load, and its times on the clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from time import perf_counter, sleep
from typing import Any

import numpy as np

from cudalab.device.nvml import Nvml
from cudalab.study.lab import Lab

CHUNK = 2e-3  # seconds of work in a sample, and between two readings of the time
AHEAD = 2  # chunks that are enqueued before the host waits for the oldest: the GPU never waits for the host
SAMPLES = 4  # taken right after the load
MOST = 1000  # runs in a chunk
READ = ("sm_hz", "power_w", "temperature_c")


class Load:
    """Work that is repeated. Its samples are taken right after a known span of load."""

    def __init__(self, lab: Lab, run: Callable[[], object]) -> None:
        self.lab, self.run = lab, run
        self._runs = 0  # in a chunk
        self._seen: dict[str, list[float]] = {name: [] for name in READ}
        self._nvml = _nvml(lab) if lab.cuda else None

    def sample(self, seconds: float, rest: float = 0.0) -> list[float]:
        """Seconds per run, SAMPLES times, after `rest` idle seconds and `seconds` of load, without a gap between.

        On a GPU the load is up to AHEAD + 1 chunks longer. Times are between events on a GPU, wall times on a CPU.
        """
        if not self._runs:
            self._runs = self._chunk_size()
        self.lab.synchronize()
        sleep(rest)
        self._keep(seconds)
        return self._by_events() if self.lab.cuda else [self._by_wall() for _ in range(SAMPLES)]

    def condition(self) -> dict[str, float]:
        """Medians of sm_hz, power_w and temperature_c while samples were taken; {} where NVML has none."""
        return {name: median(values) for name, values in self._seen.items() if values}

    def _chunk_size(self) -> int:
        taken = self.lab.wall(self.run, 8)()[0]
        return int(np.clip(np.ceil(CHUNK / taken), 1, MOST))

    def _chunk(self) -> None:
        for _ in range(self._runs):
            self.run()

    def _keep(self, seconds: float) -> None:
        """Run for `seconds`. On a GPU the last chunks still run when this returns."""
        end = perf_counter() + seconds
        under_way: deque[Any] = deque()
        while perf_counter() < end:
            self._chunk()
            if self.lab.cuda:
                under_way.append(self._mark())
                if len(under_way) > AHEAD:
                    under_way.popleft().synchronize()

    def _mark(self) -> Any:
        import pycuda.driver as driver

        mark = driver.Event()
        mark.record(self.lab.stream)
        return mark

    def _by_events(self) -> list[float]:
        self._chunk()  # not timed: it keeps the GPU busy while the host enqueues the rest
        marks = [self._mark()]
        for _ in range(SAMPLES):
            self._chunk()
            marks.append(self._mark())
        for _ in range(SAMPLES):
            self._chunk()  # not timed: it keeps the GPU busy while NVML is read
        self._read()
        self.lab.synchronize()
        return [1e-3 * start.time_till(stop) / self._runs for start, stop in pairwise(marks)]

    def _by_wall(self) -> float:
        start = perf_counter()
        self._chunk()
        return (perf_counter() - start) / self._runs

    def _read(self) -> None:
        if self._nvml is None or self._nvml.missing:
            return
        try:
            found = self._nvml.condition()
        except Exception:  # of NVML: not every card has all values, and the times do not need them
            self._nvml = None
            return
        if now := self._nvml.power_now():
            found["power_w"] = now
        for name, values in self._seen.items():
            values.append(float(found[name]))


def _nvml(lab: Lab) -> Nvml:
    import pycuda.driver as driver

    return Nvml(driver.Device(lab.device.index).pci_bus_id())  # type: ignore[attr-defined]
