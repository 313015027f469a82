"""Times of a device under load: its clock and power depend on the load, and its times on the clock."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from statistics import median
from time import perf_counter, sleep
from typing import Any

import numpy as np

from cudalab.study.lab import Lab
from cudalab.timing import load as of_gpu
from cudalab.timing.clock import Clock
from cudalab.timing.load import CHUNK, MOST, SAMPLES


class Load:
    """Work that is repeated. Its samples are taken right after a known span of load."""

    def __init__(self, lab: Lab, run: Callable[[], object]) -> None:
        self.lab, self.run = lab, run
        self._seen: dict[str, list[float]] = {}

    def sample(self, seconds: float, rest: float = 0.0) -> list[float]:
        """Seconds per run, SAMPLES times, after `rest` idle seconds and `seconds` of load, without a gap between.

        On a GPU the load is a few chunks longer. Times are between events on a GPU, wall times on a CPU.
        """
        load, _ = (self._on_gpu, 0) if self.lab.cuda else (None, self._runs)  # which are measured before the rest
        self.lab.synchronize()
        sleep(rest)
        if load:
            load.keep(seconds)
            return load.samples(self._read)
        end, alive = perf_counter() + seconds, of_gpu.paced(self.lab.alive)
        while perf_counter() < end:
            self._chunk()
            alive()
        return [self._by_wall() for _ in range(SAMPLES)]

    def energy(self, notes: list[str]) -> Clock | None:
        """A clock of the joules of a run; None where they are not counted, and a note says why."""
        if not self.lab.cuda:
            notes.append("no energy: it is measured on a GPU")
            return None
        from cudalab.timing import energy, work

        device: Any = self.lab.device
        if reason := device.nvml.no_energy():
            notes.append(f"no energy: {reason}")
            return None
        once = self.lab.wall(self.run, 8)
        return energy.energy_clock(
            device, work.Unproven(self.run), lambda: once()[0], once()[0], notes, 0.0, self.lab.alive
        )

    def condition(self) -> dict[str, float]:
        """Medians of sm_hz, power_w and temperature_c while samples were taken; {} where NVML has none."""
        return {name: median(values) for name, values in self._seen.items()}

    @cached_property
    def _on_gpu(self) -> of_gpu.Load:
        once = self.lab.wall(self.run, 8)()[0]
        return of_gpu.Load(self.lab.stream, self.run, once, alive=self.lab.alive)

    @cached_property
    def _runs(self) -> int:
        """How many are in a chunk."""
        return int(np.clip(np.ceil(CHUNK / self.lab.wall(self.run, 8)()[0]), 1, MOST))

    def _chunk(self) -> None:
        for _ in range(self._runs):
            self.run()

    def _by_wall(self) -> float:
        start = perf_counter()
        self._chunk()
        return (perf_counter() - start) / self._runs

    def _read(self) -> None:
        for name, value in self.lab.device.nvml.under_load().items():  # type: ignore[attr-defined]
            self._seen.setdefault(name, []).append(value)
