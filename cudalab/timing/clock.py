"""A way to time one variant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

# Modes that load the device for seconds, and how many for each variant, in all processes of a run.
LOADED = {"energy": 30.0, "sustained": 20.0}


@dataclass(frozen=True)
class Clock:
    """A way to time one variant."""

    sample: Callable[[], list[float]]  # takes a few samples, each the seconds of one run (of `energy`: the joules)
    build_seconds: float = 0.0  # the cost of making the clock: a graph's capture and instantiation
    width: float = 0.01  # the median is known when its 95 % interval is at most this wide, relative to it
    # Called once with all rounds that were sampled: raises where they are not what a run takes on contents that it
    # meets for the first time.
    confirm: Callable[[Sequence[Sequence[float]]], None] = lambda rounds: None
    # The mode of a clock that loads the device for seconds: the clocks of a mode are sampled in rounds of their own,
    # after the usual ones. `budget`: seconds of sampling then, in all processes of a run; else it is that of the run.
    mode: str = ""
    budget: float = 0.0
    quantities: Callable[[], Mapping[str, float]] = dict  # what the samples showed beside the time, by name
