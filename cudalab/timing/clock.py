"""A way to time one variant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cudalab.device.operands import Bound


@dataclass(frozen=True)
class Clock:
    """A way to time one variant. `work` is what it times, so that the result can be verified afterwards."""

    sample: Callable[[], list[float]]  # takes a few samples, each the seconds of one run
    work: Bound
    build_seconds: float = 0.0  # the cost of making the clock: a graph's capture and instantiation
    width: float = 0.01  # the median is known when its 95 % interval is at most this wide, relative to it
