"""How far a run is: what `bench` and `check` give to the function `progress`, and how long the rest will take.

    cudalab.bench("gelu", progress=print)

The function is called with a `Progress` about five times a second, in the process that called `bench`, and once more
after each group. It should return soon: the parent does nothing else meanwhile, while the worker goes on. What it
raises ends the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

from cudalab.engine.messages import Glimpse, Setup, Step
from cudalab.engine.selection import Rows, Way
from cudalab.timing.clock import LOADED

if TYPE_CHECKING:
    from cudalab.results.record import Results

FINISHED = "finished"

# Estimated work of a group: seconds for each variant, and for each element of a variant. Only the proportions matter:
# the finished groups give the speed of this machine.
EACH, ELEMENT = 0.05, 4e-8


@dataclass(frozen=True)
class Progress:
    """Where a run is at the moment; as text, one line."""

    step: Step  # what is done, in which group, for which variant
    done: int = 0  # groups that are finished, with those of a file that is resumed
    groups: int = 0  # of the whole run
    elapsed: float = 0.0  # seconds since the call
    left: float | None = None  # seconds, estimated; None: not known yet
    labels: tuple[str, ...] = ()  # of the group's variants, in the order in which they are compiled and checked
    glimpses: Mapping[str, Glimpse] = field(default_factory=dict)  # of those variants, by label: what is known so far
    finished: Results | None = None  # the rows of a group, when it is finished
    process: int = 1  # the number of the worker process that is at work
    processes: int = 1  # that do each group in turn

    def __str__(self) -> str:
        return str(self.step)


Report = Callable[[Progress], object]


def ignore(event: Progress) -> None:
    """The progress function that does nothing."""


def sampled(setup: Setup, kind: str) -> float:
    """Seconds for which one process samples each variant on this kind of device, also under load."""
    under_load = sum(LOADED.get(mode, 0.0) for mode in setup.modes) if kind == "cuda" else 0.0
    return setup.share(kind) + under_load / setup.count(kind) if setup.modes else 0.0


def guess(group: Rows[Way], variants: int, budget: float) -> float:
    """Seconds that a group might take; `budget` is seconds of sampling for each variant, 0 for a check."""
    elements = math.prod(group.shape) * group.parts
    return variants * (budget + EACH + ELEMENT * elements)


class Pace:
    """Estimates the time that is left from what this call has finished."""

    def __init__(self, guesses: list[float], clock: Callable[[], float] = monotonic) -> None:
        """`guesses`: estimated seconds of each group in each process, in their order."""
        self._guesses, self._clock = guesses, clock
        self._begun = self._began = clock()  # when the first began, and the present one
        self._done = 0

    def reach(self, done: int) -> None:
        """So many are finished."""
        if done > self._done:
            self._done, self._began = done, self._clock()

    def left(self) -> float | None:
        """Seconds: the guesses of the groups that are left, scaled by the finished ones; None before the first."""
        guessed = sum(self._guesses[: self._done])
        if not guessed:
            return None
        scale = (self._began - self._begun) / guessed
        now, *later = *self._guesses[self._done :], 0.0
        return max(scale * now - (self._clock() - self._began), 0.0) + scale * sum(later)
