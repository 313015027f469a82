"""Work that a device's clocks do not measure, because it was launched on another stream than the lab's."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cudalab.device.gpu import Gpu


def outstanding(device: Gpu, run: Callable[[], object], times: int) -> float:
    """Seconds for which the GPU is still busy when the lab's stream is idle, after `times` runs.

    A few microseconds if all work went to the lab's stream. This detects only work that lasts longer than its launch.
    The kernel count of a capture detects shorter work on another stream.
    """
    import pycuda.driver as driver

    driver.Context.synchronize()
    for _ in range(times):
        run()
    device.stream.synchronize()
    start = perf_counter()
    driver.Context.synchronize()
    return perf_counter() - start
