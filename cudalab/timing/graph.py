"""CUDA Graphs of a variant's runs, captured on the lab's own stream."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from cudalab.base.errors import LaunchError
from cudalab.device import driver
from cudalab.device.operands import Bound

WARM_UPS = 2  # passes in the graph's memory pool, since a capture must not allocate from the driver


class Graph:
    """One run of each of `bounds`, in order, captured once and ready to be replayed: `replay()` enqueues it whole.

    All bounds are of one variant, on the same or on different operands. Raises LaunchError where the variant cannot be
    captured, or where the graph has fewer kernels than runs or an uneven number: work went to another stream, or was
    enqueued only once. `before` enqueues what the runs must find, before each pass that comes before the capture.
    """

    def __init__(self, bounds: Sequence[Bound], stream: Any, before: Callable[[], object] = lambda: None) -> None:
        self.results: list[Any] = []  # of each run, in order; kept, so that no run reuses another's memory
        self._executable = 0
        self._handle = self._capture(bounds, stream, before)
        try:
            self.runs, self.kernels = len(bounds), driver.kernels_in(self._handle)
            if self.kernels < self.runs or self.kernels % self.runs:
                raise LaunchError(
                    f"{self.runs} runs were captured as {self.kernels} kernels; is the work on another stream?"
                )
            start = perf_counter()
            self._executable = driver.instantiate(self._handle)
            self.build_seconds += perf_counter() - start
        except BaseException:
            self.close()
            raise
        self.replay = driver.replayer(self._executable, stream.handle)

    def _capture(self, bounds: Sequence[Bound], stream: Any, before: Callable[[], object]) -> int:
        with bounds[0].pool():
            for _ in range(WARM_UPS):
                before()
                self._run(bounds)
            stream.synchronize()
            # A collection could free device memory, which ends a capture. None is made before it: one takes 0.3 s where
            # PyTorch's compiler is loaded, and every variant has two graphs.
            gc.disable()
            failed: Exception | None = None
            start = perf_counter()  # a graph's cost is without the warm-ups
            try:
                driver.begin_capture(stream.handle)
                try:
                    self._run(bounds)
                except Exception as error:
                    failed = error
                graph = driver.end_capture(stream.handle)
                self.build_seconds = perf_counter() - start
            except LaunchError:
                if failed is None:
                    raise
            finally:
                gc.enable()
        if failed is not None:
            raise LaunchError(f"cannot be captured: {type(failed).__name__}: {failed}") from failed
        return graph

    def _run(self, bounds: Sequence[Bound]) -> None:
        results = []
        for bound in bounds:
            bound.run()
            results.append(bound.output())
        self.results = results

    def close(self) -> None:
        driver.destroy_graph(self._handle, self._executable)
        self._handle = self._executable = 0
        self.results = []
