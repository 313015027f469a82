"""CUDA Graphs of any variant's runs: captured on the lab's own stream, through the driver."""

from __future__ import annotations

import gc
from typing import Any

from cudalab.backends import Bound
from cudalab.errors import LaunchError, Unavailable


class Graph:
    """`runs` captured runs of a variant, ready to be replayed.

    Raises Unavailable where the driver's Python bindings are missing, LaunchError where the variant cannot be
    captured or where fewer kernels than runs were: work that went to another stream, or happened once.
    """

    def __init__(self, bound: Bound, runs: int, stream: Any) -> None:
        try:
            from cuda.bindings import driver
        except ImportError:
            raise Unavailable("capturing needs cuda-bindings; pip install cuda-bindings") from None
        self._driver, self._stream = driver, driver.CUstream(stream.handle)
        self._handle = self._capture(bound, runs, stream)
        self.kernels = self._count_kernels()
        if self.kernels < runs or self.kernels % runs:
            self.close()
            raise LaunchError(f"{runs} runs were captured as {self.kernels} kernels; is it on another stream?")
        self._replayable = self._ask(driver.cuGraphInstantiate(self._handle, 0))
        result = bound.output()  # written by every replay
        self.work = Bound(self._replay, lambda: result)

    def _capture(self, bound: Bound, runs: int, stream: Any) -> Any:
        driver = self._driver
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        with bound.pool():
            for _ in range(3):  # fill the pool: nothing may be allocated from the driver during a capture
                bound.run()
            stream.synchronize()
            gc.collect()
            gc.disable()  # a collection could free device memory, which ends a capture
            try:
                self._ask(driver.cuStreamBeginCapture(self._stream, mode))
                failed: Exception | None = None
                try:
                    for _ in range(runs):
                        bound.run()
                except Exception as error:
                    failed = error
                code, graph = driver.cuStreamEndCapture(self._stream)
            finally:
                gc.enable()
        if failed is not None:
            raise LaunchError(f"cannot be captured: {type(failed).__name__}: {failed}") from failed
        return self._ask((code, graph))

    def _count_kernels(self) -> int:
        driver = self._driver
        count = self._ask(driver.cuGraphGetNodes(self._handle, 0))[1]
        nodes = self._ask(driver.cuGraphGetNodes(self._handle, count))[0] if count else []
        types = [self._ask(driver.cuGraphNodeGetType(node)) for node in nodes]
        return types.count(driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL)

    def _replay(self) -> None:
        self._driver.cuGraphLaunch(self._replayable, self._stream)

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
