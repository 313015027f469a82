"""Rounds, stop rule and statistics, with clocks whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab import measure, stats
from cudalab.backends import Bound
from cudalab.devices import Clock

NOTHING = Bound(lambda: None, lambda: None)


def clock(seconds, samples=5):
    return Clock(lambda: [seconds() for _ in range(samples)], NOTHING)


def test_rounds_are_interleaved_in_changing_order():
    order = []
    clocks = {name: {"t": clock(lambda name=name: order.append(name) or 1.0, 1)} for name in "abc"}
    taken = measure.take(clocks, seed=0, budget=1)
    rounds = ["".join(order[i : i + 3]) for i in range(0, len(order), 3)]
    assert all(sorted(r) == ["a", "b", "c"] for r in rounds)
    assert len(set(rounds)) > 1
    assert all(len(t.rounds["t"]) == measure.LEAST_ROUNDS for t in taken.values())


def test_noise_gets_more_rounds_than_silence():
    rng = np.random.default_rng(0)
    quiet = measure.take({"q": {"t": clock(lambda: 1.0)}}, 0, 10)["q"]
    noisy = measure.take({"n": {"t": clock(lambda: rng.uniform(1, 2))}}, 0, 10)["n"]
    assert len(quiet.rounds["t"]) == measure.LEAST_ROUNDS
    assert len(noisy.rounds["t"]) == measure.MOST_ROUNDS


def test_the_budget_ends_it_after_the_least_number_of_rounds():
    rng = np.random.default_rng(0)
    taken = measure.take({"n": {"t": clock(lambda: rng.uniform(1, 2))}}, 0, 1e-9)["n"]
    assert len(taken.rounds["t"]) == measure.LEAST_ROUNDS


def test_one_failing_variant_costs_itself():
    def fails():
        raise ValueError("no such luck")

    taken = measure.take({"bad": {"t": clock(fails)}, "good": {"t": clock(lambda: 1.0)}}, 0, 1)
    assert taken["bad"].error == "failed while it was timed: ValueError: no such luck"
    assert taken["good"].error == ""
    assert stats.median(taken["good"].rounds["t"]) == 1


def test_the_medians_interval_holds_what_it_says():
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(1000):
        low, high = stats.median_interval([rng.exponential(size=10) for _ in range(10)])
        inside += low <= np.log(2) <= high
    assert 930 <= inside <= 985


def test_a_drift_of_the_machine_cancels_in_the_speedup():
    drift = np.linspace(1, 3, 20)
    slow = [[2.0 * d] * 5 for d in drift]
    fast = [[1.0 * d] * 5 for d in drift]
    assert stats.speedup(slow, fast) == pytest.approx(2)
    assert stats.speedup(fast, fast) == 1


def test_width_is_relative():
    assert stats.relative_width([[1.0] * 10] * 3) == 0
    assert stats.relative_width([[0.9, 1.0, 1.1] * 4]) == pytest.approx(0.2)
