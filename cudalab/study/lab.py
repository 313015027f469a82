"""The argument of a study's variants: the device, their parameters, torch, and clocks."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from cudalab.base.errors import Unavailable, unknown
from cudalab.device.arrays import torch_missing
from cudalab.device.protocol import Device
from cudalab.study.found import Workload

SPAN = 20e-3  # least seconds of a sample of wall time, so that the clock and the last wait do not count
MOST = 10_000  # runs in a sample
QUIET = {"KINETO_LOG_LEVEL": "6", "TORCH_CPP_LOG_LEVEL": "ERROR"}  # keeps torch.profiler off stderr

NO_KERNEL = "PyTorch computes tensors on a CPU itself, without the lab's kernel"  # a reason to leave a variant out


@dataclass
class Lab:
    """The surroundings of one workload. `lab["batch"]` is a parameter of its size, or a setting."""

    device: Device
    workload: Workload
    seed: int
    tick: Callable[[str], None]  # tells what is done now: a sign of life in long preparations
    alive: Callable[[], object] = lambda: None  # a sign of life in a step that lasts
    at_end: ExitStack = field(default_factory=ExitStack)  # closes what several variants share
    _shared: dict[Hashable, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        known = self.workload.parameters
        if name not in known:
            raise unknown(f"parameter or setting of {self.workload}", name, known)
        return known[name]

    @property
    def size(self) -> str:
        return self.workload.size

    @property
    def cuda(self) -> bool:
        return self.device.kind == "cuda"

    @property
    def stream(self) -> Any:
        """Return the PyCUDA stream that all work goes to; None on a CPU."""
        return getattr(self.device, "stream", None)

    def torch(self) -> Any:
        """The torch module, seeded and on the lab's stream. Raises Unavailable if it is not installed."""
        for name, level in QUIET.items():
            os.environ.setdefault(name, level)
        if reason := torch_missing(self.device.kind):
            raise Unavailable(reason)
        import torch

        if self.cuda:
            torch.cuda.set_device(self.device.index)  # type: ignore[attr-defined]
            torch.cuda.set_stream(torch.cuda.ExternalStream(self.stream.handle))
        torch.manual_seed(self.seed)
        return torch

    @property
    def where(self) -> str:
        """The device as torch names it."""
        return f"cuda:{self.device.index}" if self.cuda else "cpu"  # type: ignore[attr-defined]

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The result of `make`, called once per `key` and shared by all variants: for inputs, mostly."""
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]

    def synchronize(self) -> None:
        """Wait for all enqueued work, on every stream."""
        if self.cuda:
            import pycuda.driver as driver

            driver.Context.synchronize()

    def wall(self, run: Callable[[], object], runs: int = 0) -> Callable[[], list[float]]:
        """A clock: seconds per run of `runs` runs back to back, until the last is done (0: as many as last SPAN)."""
        n = runs or several(lambda n: n * self.wall(run, n)()[0])

        def sample() -> list[float]:
            self.synchronize()
            start = perf_counter()
            for _ in range(n):
                run()
            self.synchronize()
            return [(perf_counter() - start) / n]

        return sample


def several(seconds: Callable[[int], float]) -> int:
    """How many runs last SPAN. `seconds(n)` times n runs."""
    n, taken = 1, seconds(1)
    while n * taken < SPAN / 4 and n < MOST:
        n *= 4
        taken = seconds(n) / n
    return int(np.clip(np.ceil(SPAN / taken), 1, MOST))
