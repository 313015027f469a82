"""Work that a device's clocks cannot see: launched on another stream than the lab's."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cudalab.device.gpu import Gpu


def outstanding(device: Gpu, run: Callable[[], object], times: int) -> float:
    """Seconds for which the GPU still works when the lab's stream is idle, after so many runs.

    A few microseconds if all of it went to the lab's stream. Tells for work that lasts longer than its launch;
    shorter work is over by then, but the count of a capture's kernels tells of it.
    """
    import pycuda.driver as driver

    driver.Context.synchronize()
    for _ in range(times):
        run()
    device.stream.synchronize()
    start = perf_counter()
    driver.Context.synchronize()
    return perf_counter() - start
