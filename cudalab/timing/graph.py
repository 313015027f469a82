"""CUDA Graphs of any variant's runs: captured on the lab's own stream, through the driver."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from time import perf_counter
from typing import Any

from cudalab.base.errors import LaunchError, Unavailable
from cudalab.device.operands import Bound

WARM_UPS = 2  # passes in the graph's own memory pool: nothing may be allocated from the driver in a capture


class Graph:
    """One run of each of `bounds`, in order, captured once and ready to be replayed.

    All bounds are of one variant, on the same or on different operands. Raises Unavailable where the driver's
    Python bindings are missing, LaunchError where the variant cannot be captured or where fewer kernels than runs
    were: work that went to another stream, or happened once.
    """

    def __init__(self, bounds: Sequence[Bound], stream: Any) -> None:
        try:
            from cuda.bindings import driver
        except ImportError:
            raise Unavailable("capturing needs cuda-bindings; pip install cuda-bindings") from None
        self._driver, self._stream = driver, driver.CUstream(stream.handle)
        self._results: dict[int, Any] = {}  # of each bound its last result: no bound reuses another's memory
        self._handle = self._capture(bounds, stream)
        try:
            self.runs, self.kernels = len(bounds), self._count_kernels()
            if self.kernels < self.runs or self.kernels % self.runs:
                raise LaunchError(f"{self.runs} runs were captured as {self.kernels} kernels; is it on another stream?")
            start = perf_counter()
            self._replayable = self._ask(driver.cuGraphInstantiate(self._handle, 0))
            self.build_seconds += perf_counter() - start
        except BaseException:
            self.close()
            raise
        self.works = [Bound(self.replay, lambda r=r: r) for r in self._results.values()]  # type: ignore[misc]

    def replay(self) -> None:
        """Enqueue the whole graph."""
        self._ask(self._driver.cuGraphLaunch(self._replayable, self._stream))

    def _capture(self, bounds: Sequence[Bound], stream: Any) -> Any:
        driver = self._driver
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        with bounds[0].pool():
            for _ in range(WARM_UPS):
                self._run(bounds)
            stream.synchronize()
            gc.collect()
            gc.disable()  # a collection could free device memory, which ends a capture
            failed: Exception | None = None
            start = perf_counter()  # warm-ups and the collection are the lab's caution, no cost of the graph
            try:
                self._ask(driver.cuStreamBeginCapture(self._stream, mode))
                try:
                    self._run(bounds)
                except Exception as error:
                    failed = error
                answer = driver.cuStreamEndCapture(self._stream)
                self.build_seconds = perf_counter() - start
            finally:
                gc.enable()
        if failed is not None:
            raise LaunchError(f"cannot be captured: {type(failed).__name__}: {failed}") from failed
        return self._ask(answer)

    def _run(self, bounds: Sequence[Bound]) -> None:
        for bound in bounds:
            bound.run()
            self._results[id(bound)] = bound.output()

    def _count_kernels(self) -> int:
        driver = self._driver
        count = self._ask(driver.cuGraphGetNodes(self._handle, 0))[1]
        nodes = self._ask(driver.cuGraphGetNodes(self._handle, count))[0] if count else []
        types = [self._ask(driver.cuGraphNodeGetType(node)) for node in nodes]
        return types.count(driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL)

    def _ask(self, answer: Any) -> Any:
        """The value of a driver call, or LaunchError with the driver's name for what failed."""
        code, *values = answer
        if code != self._driver.CUresult.CUDA_SUCCESS:
            raise LaunchError(f"the driver said {code.name}")
        return values[0] if len(values) == 1 else values

    def close(self) -> None:
        if replayable := getattr(self, "_replayable", None):
            self._driver.cuGraphExecDestroy(replayable)
        self._driver.cuGraphDestroy(self._handle)
        self._results.clear()
