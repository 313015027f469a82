"""Take samples in interleaved rounds: in each round every variant has its turn, in a new order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from cudalab import stats
from cudalab.devices import Clock

LEAST_ROUNDS = 10
MOST_ROUNDS = 60
WIDTH = 0.01  # stop when every median's 95 % interval is at most this wide


@dataclass
class Taken:
    """What one variant's clocks have given: rounds of samples by what was measured, or why it stopped."""

    rounds: dict[str, list[list[float]]] = field(default_factory=dict)
    error: str = ""


def take(variants: Mapping[str, Mapping[str, Clock]], seed: int, budget: float) -> dict[str, Taken]:
    """Sample every clock of every variant until all medians are known to 1 %, or the budget is spent.

    `budget` is seconds for each variant, counted together; at least LEAST_ROUNDS rounds are taken whatever they
    cost. A variant whose clock raises is left out from then on; its `error` says why.
    """
    rng = np.random.default_rng(seed)
    taken = {label: Taken({kind: [] for kind in clocks}) for label, clocks in variants.items()}
    deadline = perf_counter() + budget * len(variants)
    for done in range(MOST_ROUNDS):
        if done >= LEAST_ROUNDS and (perf_counter() > deadline or _settled(taken)):
            break
        for label in rng.permutation(list(variants)):
            _one_round(variants[label], taken[label])
    return taken


def _one_round(clocks: Mapping[str, Clock], taken: Taken) -> None:
    if taken.error:
        return
    for kind, clock in clocks.items():
        try:
            taken.rounds[kind].append(clock.sample())
        except Exception as error:  # any library's; the row will say so
            taken.error = f"failed while it was timed: {type(error).__name__}: {error}"
            return


def _settled(taken: Mapping[str, Taken]) -> bool:
    alive = (t.rounds for t in taken.values() if not t.error)
    return all(stats.relative_width(r) <= WIDTH for rounds in alive for r in rounds.values())
