"""Samples in rounds: in each round every variant takes its turn, in a new order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from cudalab.base import stats
from cudalab.base.errors import message_of
from cudalab.timing.clock import Clock

ORDERS = ("shuffled", "blocked")
LEAST_ROUNDS = 10
MOST_ROUNDS = 200
DIGITS = 11  # decimal places of a second that are kept: 10 ps, a thousandth of the finest timer's tick

Clocks = Mapping[str, Mapping[str, Clock]]  # by variant, then by what is measured
Turn = Callable[[str], None]


@dataclass
class Samples:
    """One variant's samples: rounds of them by what was measured, or why it stopped."""

    rounds: dict[str, list[list[float]]] = field(default_factory=dict)
    error: str = ""
    seconds: float = 0.0  # spent on sampling, overhead included
    widths: dict[str, float] = field(default_factory=dict)  # a median is known when its interval is at most this wide

    def settled(self, kind: str) -> bool:
        """Whether more rounds add nothing: the median is known to its width, or the variant has failed."""
        return bool(self.error) or stats.spread(self.rounds[kind]) <= self.widths[kind]


def take(
    variants: Clocks, seed: int, budget: float, order: str = "shuffled", least: int = LEAST_ROUNDS,
    after: Turn = lambda label: None,
) -> dict[str, Samples]:  # fmt: skip
    """Sample every clock of every variant until its median is known to its width, or the budget is spent.

    A kind of time is taken in each round until it is known for all variants. `budget` is in seconds, for each variant;
    at least `least` rounds are taken even if that exceeds it, at most MOST_ROUNDS. A variant whose clock raises is
    left out from then on; its `error` says why. In "shuffled" order the variants take turns within each round: a drift
    affects all of them alike, and round i of one is comparable with round i of another. In "blocked" order one variant
    takes all its rounds before the next begins, which checks that the variants do not disturb each other. `after` is
    called with the label after each turn of a variant, even one that failed; what it raises is an error of that
    variant.
    """
    if order == "shuffled":
        return _rounds(variants, seed, budget * len(variants), least, after)
    taken: dict[str, Samples] = {}
    for label in np.random.default_rng(seed).permutation(list(variants)):
        taken |= _rounds({label: variants[label]}, seed, budget, least, after)
    return {label: taken[label] for label in variants}


def _rounds(variants: Clocks, seed: int, budget: float, least: int, after: Turn) -> dict[str, Samples]:
    rng = np.random.default_rng(seed)
    taken = {label: _nothing(clocks) for label, clocks in variants.items()}
    deadline = perf_counter() + budget
    kinds = {kind for clocks in variants.values() for kind in clocks}
    for done in range(MOST_ROUNDS):
        if done >= least:
            kinds = {kind for kind in kinds if not all(t.settled(kind) for t in taken.values() if kind in t.rounds)}
            if not kinds or perf_counter() > deadline:
                break
        for label, clocks in _shuffled(variants, rng):
            began = perf_counter()
            _one_round({kind: clock for kind, clock in clocks.items() if kind in kinds}, taken[label], label, after)
            taken[label].seconds += perf_counter() - began
    return taken


def _nothing(clocks: Mapping[str, Clock]) -> Samples:
    return Samples({kind: [] for kind in clocks}, widths={kind: clock.width for kind, clock in clocks.items()})


def _shuffled(variants: Clocks, rng: np.random.Generator) -> Iterator[tuple[str, Mapping[str, Clock]]]:
    for label in rng.permutation(list(variants)):
        yield label, variants[label]


def _one_round(clocks: Mapping[str, Clock], taken: Samples, label: str, after: Turn) -> None:
    if taken.error:
        return
    try:
        for kind, clock in clocks.items():
            taken.rounds[kind].append([round(s, DIGITS) for s in clock.sample()])
    except Exception as error:  # any library's; the row will say so
        taken.error = f"failed while it was timed: {message_of(error)}"
    try:
        after(label)
    except Exception as error:
        taken.error = taken.error or f"failed while it was timed: {message_of(error)}"
