"""Rounds, stop rule and statistics, with clocks whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab.base import stats
from cudalab.base.errors import InputError
from cudalab.device.operands import Bound
from cudalab.timing import rounds as measure
from cudalab.timing.clock import Clock

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


def test_rounds_that_differ_need_more_of_them_than_samples_that_do():
    rng = np.random.default_rng(0)
    within = Clock(lambda: list(rng.uniform(1, 1.03, 99)), NOTHING)
    between = Clock(lambda: [rng.uniform(1, 1.03)] * 99, NOTHING)
    rounds = {n: len(measure.take({n: {"t": c}}, 0, 10)[n].rounds["t"]) for n, c in (("w", within), ("b", between))}
    assert rounds["w"] == measure.LEAST_ROUNDS < rounds["b"]


def test_a_clock_says_how_well_its_median_is_to_be_known():
    rng = np.random.default_rng(0)
    rough = Clock(lambda: [rng.uniform(1, 1.1)], NOTHING, width=0.05)
    taken = measure.take({"r": {"call": rough}, "f": {"t": clock(lambda: 1.0)}}, 0, 10)
    assert measure.LEAST_ROUNDS < len(taken["r"].rounds["call"]) < measure.MOST_ROUNDS
    assert taken["r"].settled("call")
    assert all(t.seconds > 0 for t in taken.values())


def test_what_is_known_for_all_variants_is_not_taken_again():
    rng = np.random.default_rng(0)
    noisy, quiet = clock(lambda: rng.uniform(1, 2)), clock(lambda: 1.0)
    taken = measure.take({"a": {"cold": quiet, "hot": noisy}, "b": {"cold": quiet, "hot": quiet}}, 0, 10)
    rounds = {(label, kind): len(r) for label, t in taken.items() for kind, r in t.rounds.items()}
    assert rounds["a", "cold"] == rounds["b", "cold"] == measure.LEAST_ROUNDS
    assert rounds["a", "hot"] == rounds["b", "hot"] == measure.MOST_ROUNDS


def test_the_budget_ends_it_after_the_least_number_of_rounds():
    rng = np.random.default_rng(0)
    taken = measure.take({"n": {"t": clock(lambda: rng.uniform(1, 2))}}, 0, 1e-9)["n"]
    assert len(taken.rounds["t"]) == measure.LEAST_ROUNDS


@pytest.mark.parametrize(
    ("error", "said"), [(ValueError("no such luck"), "ValueError: no such luck"), (InputError("give 1"), "give 1")]
)
def test_one_failing_variant_costs_itself(error, said):
    def fails():
        raise error

    taken = measure.take({"bad": {"t": clock(fails)}, "good": {"t": clock(lambda: 1.0)}}, 0, 1)
    assert taken["bad"].error == f"failed while it was timed: {said}"
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
    assert stats.speedup(slow, fast) == stats.Ratio(pytest.approx(2), pytest.approx(2), pytest.approx(2))
    assert stats.speedup(fast, fast) == stats.Ratio(1, 1, 1)


def noisy(rng, rounds=20, samples=5, factor=1.0, spread=0.02):
    """Rounds whose level moves by `spread` from one to the next, with less noise inside, as on real machines."""
    levels = factor * (1 + spread * rng.standard_normal(rounds))
    return [list(level * (1 + spread / 5 * rng.standard_normal(samples))) for level in levels]


def test_the_speedups_interval_holds_what_it_says():
    """Levels that move from round to round must not be taken for precision: the bootstrap is over rounds."""
    rng = np.random.default_rng(2)
    inside = 0
    for _ in range(300):
        ratio = stats.speedup(noisy(rng, factor=1.1), noisy(rng))
        inside += ratio.low <= 1.1 <= ratio.high
    assert 270 <= inside <= 298


def test_equal_variants_are_hardly_ever_called_different():
    rng = np.random.default_rng(3)
    verdicts = [stats.speedup(noisy(rng, spread=0.005), noisy(rng, spread=0.005)).verdict() for _ in range(200)]
    assert set(verdicts) <= {stats.SAME, stats.UNCLEAR}
    assert verdicts.count(stats.SAME) >= 190


def test_times_in_steps_are_compared_as_finely_as_times_without():
    """Times of a few microseconds on a GPU: most samples are one of two values 5 % apart."""
    rng = np.random.default_rng(0)
    ratios = [stats.speedup(*rng.choice([4.0, 4.2], (2, 100, 8)).tolist(), seed=i) for i in range(50)]
    assert max(r.high - r.low for r in ratios) < 0.02
    assert {r.verdict() for r in ratios} == {stats.SAME}


@pytest.mark.parametrize(("low", "high", "verdict"), [
    (1.05, 1.10, stats.FASTER), (0.90, 0.95, stats.SLOWER), (0.995, 1.005, stats.SAME), (1.001, 1.01, stats.SAME),
    (0.99, 1.05, stats.UNCLEAR), (1.01, 1.03, stats.UNCLEAR), (0.9, 1.1, stats.UNCLEAR), (0.95, 0.99, stats.UNCLEAR),
])  # fmt: skip
def test_verdicts_claim_no_more_than_the_interval(low, high, verdict):
    assert stats.Ratio((low + high) / 2, low, high).verdict(0.02) == verdict


def test_two_modes_are_seen_and_one_is_not():
    rng = np.random.default_rng(4)
    one = [list(1 + 0.01 * rng.standard_normal(5)) for _ in range(20)]
    two = [[level * (1 + 0.001 * rng.standard_normal()) for level in (1, 1, 1, 1.2, 1.2)] for _ in range(20)]
    outlier = [[1 + 0.001 * rng.standard_normal() for _ in range(4)] + [1.5 if i == 3 else 1.0] for i in range(20)]
    assert not stats.bimodal(one)
    assert stats.bimodal(two)
    assert not stats.bimodal(outlier)


def test_an_outlier_does_not_hide_two_groups():
    rng = np.random.default_rng(3)
    one, other = rng.normal(1, 0.005, 25), rng.normal(1.2, 0.005, 25)
    assert stats.bimodal([[*one, *other]])
    assert stats.bimodal([[*one, *other, 2.0, 0.1]])
    assert not stats.bimodal([[*one, *other[:4], 2.0]])


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("rounds", [2, 3, 4, 5, 9])
def test_few_rounds_promise_no_more_than_they_know(rounds, paired):
    """At most a twentieth of the 95 % intervals may miss the truth, and claim a difference where there is none."""
    rng, missed, claimed = np.random.default_rng(rounds), 0, 0
    for _ in range(400):
        a, b = np.exp(rng.normal(0, 0.03, (2, rounds)))
        ratio = stats.speedup([[t] for t in a], [[t] for t in b], paired=paired)
        assert 0 < ratio.low <= ratio.value <= ratio.high
        missed += not ratio.low <= 1 <= ratio.high
        claimed += ratio.verdict() in (stats.FASTER, stats.SLOWER)
    assert missed <= 0.08 * 400
    assert claimed <= 0.05 * 400


def test_one_round_says_nothing():
    assert stats.speedup([[1.0] * 9], [[0.5] * 9]).verdict() == stats.UNCLEAR
    assert stats.speedup([[1.0] * 9], [[0.5] * 9]).vague
    assert stats.relative_width([[1.0]]) == np.inf


def test_blocked_order_keeps_each_variant_together():
    order = []
    clocks = {name: {"t": clock(lambda name=name: order.append(name) or 1.0, 1)} for name in "abc"}
    taken = measure.take(clocks, seed=0, budget=1, order="blocked")
    assert list(taken) == ["a", "b", "c"]
    assert "".join(order) in {x * 10 + y * 10 + z * 10 for x in "abc" for y in "abc" for z in "abc"}


def test_width_is_relative():
    assert stats.relative_width([[1.0] * 10] * 3) == 0
    assert stats.relative_width([[0.9, 1.0, 1.1] * 4]) == pytest.approx(0.2)
