"""Medians, intervals, ratios and verdicts of times whose truth is known."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import intervals
import numpy as np
import pytest
import spread
from scipy import stats as scipy_stats

from cudalab.base import estimate, scatter, stats
from cudalab.base.stats import FASTER, SAME, SLOWER, UNCLEAR, Ratio, Timing, judged_by_later, speedup
from cudalab.engine import enough

SPREAD = Path(__file__).parents[2] / "bench/results/h200/engine/spread.json"
BIN = 1000e-6  # a time at which short steps do not matter


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def processes(rng, each, rounds=15, noise=0.001):
    """The times of several processes, given the level of each."""
    taken = [[float(s)] for level in each for s in level * (1 + noise * rng.standard_normal(rounds))]
    return Timing(taken, [rounds] * len(each))


def test_what_is_expected_of_processes_is_what_committed_runs_show():
    """In each class intervals of runs that the fit has not seen hold as often as METHOD.md says, by kind of test."""
    written = json.loads(SPREAD.read_text())
    rows = written["classes"]
    found = {(row["family"], row["time"]): pytest.approx(row["s0"], abs=5.1e-5) for row in rows}
    known = {
        (family, name): s0
        for family, each in scatter.RATIO.items()
        for name, s0 in zip(scatter.NAMES, each, strict=True)
    }
    assert known == found
    assert {row["d0"] for row in rows} == {estimate.KNOWN}
    for kind, (least, most) in {"processes": (93, 97), "later": (93, 100), "repeats": (96, 100)}.items():
        shares = [round(100 * held / tried) for held, tried in (row[kind] for row in rows) if tried]
        assert least == min(shares) and max(shares) == most, kind
    for kind, (least, most) in {"api": (94, 99), "call": (92, 99)}.items():
        shares = [row["processes"] for row in written["host"]["classes"] if row["class"].startswith(kind)]
        shares = [round(100 * held / tried) for held, tried in shares]
        assert least == min(shares) and max(shares) == most, kind
    # A search that ends at its own limit has found nothing.
    assert all(spread.SCALES[0] + 0.01 < scale < spread.SCALES[-1] - 0.01 for scale in written["scales"].values())


def test_the_fit_counts_intervals_as_the_lab_makes_them():
    rng, side = np.random.default_rng(4), ("kernel", 2)
    for n in (2, 3, 8) * 20:
        values = [estimate.Estimate(float(v), 1e-7, 9) for v in rng.choice([2e-4, 4e-3]) * rng.standard_normal(n)]
        interval = estimate.over_processes([v.value for v in values], values, 0.003)
        of = spread.Found(0, (), (side, side), side, values, 0.0, True)
        for truth, holds in ((0.999 * interval.reach, True), (1.001 * interval.reach, False)):
            known = [estimate.Estimate(interval.value + truth * np.sqrt(1 + n), 0.0, 9)]
            assert spread.held([spread.Test.made(of, "later", values, known)], {side: 0.003}) == [holds]


def test_what_is_not_known_is_expected_to_differ_by_a_wide_number():
    assert scatter.expected(50e-6, "kernel") < scatter.expected(50e-6) == pytest.approx(0.0035 + 6e-9 / 50e-6)
    labels = "pycuda:a", "triton", "torch_compile", "rival:mine", "torch_compile:max_autotune"
    assert [scatter.family(label) for label in labels] == ["kernel"] * 2 + ["compiled"] * 2 + ["tuned"]


def test_the_noise_of_host_times_is_part_of_what_is_expected_of_their_processes(rng):
    """So processes that differ by their noise are as expected, and need not Student's interval of three values."""
    levels = 20e-6 * np.exp(0.1 * np.array([-1, 0, 1]))
    one, other = (processes(rng, levels, 4, 0.1) for _ in range(2))
    widths = [speedup(*(replace(t, known=known) for t in (one, other))) for known in ("", scatter.HOST)]
    assert np.log(widths[1].high / widths[1].low) < 0.75 * np.log(widths[0].high / widths[0].low)


@pytest.mark.parametrize(
    ("times_expected", "truth", "least", "wrong"), [(0, 1.0, 0.94, 0), (0, 1.02, 0.94, 0.04), (3, 1.02, 0.85, 0.08)]
)
def test_processes_that_are_added_until_a_row_is_settled_leave_its_ratio_true(times_expected, truth, least, wrong):
    """Deviations as committed runs have them (0: s0^2 over an F variable's), or three times what is expected."""
    rng, held, said, taken = np.random.default_rng(9), 0, [], []
    for _ in range(trials := 250):
        deviation = scatter.RATIO["kernel"][2] * (times_expected or np.sqrt(2 / rng.chisquare(estimate.KNOWN)))
        levels = 60e-6 * np.exp(deviation * rng.standard_normal(8)) / truth
        ours, rival = processes(rng, [60e-6] * 8, 4, 1e-4), processes(rng, levels, 4, 1e-4)
        for n in range(3, 9):
            pair = [Timing(t.rounds[: 4 * n], [4] * n, known="kernel") for t in (ours, rival)]
            if enough.is_settled(*pair, 3, 8):
                break
        ratio = judged_by_later(speedup(*pair), *pair)
        held += ratio.low <= truth <= ratio.high
        said.append(ratio.direction())
        taken.append(n)
    assert held >= least * trials
    assert len(said) - said.count("") <= wrong * trials  # 2 % apart is no direction
    assert 3.5 < np.mean(taken) < 7.5


# --- Coverage: the rows of bench/intervals.py, with few trials

EXEMPT = "drift of one variant, 5 %"  # no statistic knows whether a variant slows down by itself
UNDECIDED = (
    "own AR(1) 0.5, 1 %", "own AR(1) 0.9, 1 %", "placement, 0.5 %", "placement, 2 %", "samples in two modes 10 % apart",
    "steps of 32 ns at 4 \u00b5s, noise 5 %", "steps of 160 ns at 4 \u00b5s, noise 5 %",
    "steps of 160 ns at 4 \u00b5s, noise 1 %", "states: 10.98 or 13.05 \u00b5s",
)  # fmt: skip


def test_intervals_hold_the_truth_whatever_the_noise():
    """20 trials a row. With a true coverage of 90 % fewer than 14 hits have a chance of 0.2 %."""
    for row in intervals.ROWS:
        found = intervals.simulate(row, trials=20)
        if row.name == EXEMPT:
            assert found.ratio < 10, "the row is exempt for nothing"
            continue
        assert min(found.median, found.ratio) >= 14, (row.name, found)
        assert found.verdicts[FASTER] + found.verdicts[SLOWER] <= 1, (row.name, found)
        if row.name not in UNDECIDED:
            assert found.verdicts[SAME] >= 17, (row.name, found)


def test_an_interval_of_one_process_alone_would_fail_this_test():
    """What the simulation is for: where processes differ, an interval that knows one of them misses."""
    (row,) = (row for row in intervals.ROWS if row.name == "placement, 2 %")
    hits = 0
    for trial in range(40):
        rng = np.random.default_rng(trial)
        ratio = speedup(*(intervals.timing(row, rng, 1e-5, 1) for _ in range(2)), elsewhere=False)
        hits += ratio.low <= 1 <= ratio.high
    assert hits < 20


def test_a_table_is_printed(capsys, monkeypatch):
    monkeypatch.setattr(intervals, "ROWS", intervals.ROWS[:1])
    monkeypatch.setattr(sys, "argv", ["intervals.py", "--trials", "3"])
    intervals.main()
    head, rule, line = capsys.readouterr().out.splitlines()
    assert head.count("|") == rule.count("|") == line.count("|") and "100.0" in line


# --- Several processes


def test_what_differs_between_processes_is_in_the_interval(rng):
    steady, torn = processes(rng, [BIN] * 3), processes(rng, [BIN, 1.2 * BIN, 1.2 * BIN])
    assert steady.width < 0.02 and not steady.disagree
    assert torn.width > 0.2 and torn.disagree
    assert torn.interval[0] < BIN and torn.interval[1] > 1.2 * BIN
    assert speedup(steady, steady).verdict() == SAME
    assert speedup(steady, torn).verdict() == UNCLEAR
    assert speedup(steady, processes(rng, [1.2 * BIN] * 3)).verdict() == SLOWER


def test_one_process_claims_less(rng):
    slow, fast = (processes(rng, [level] * 3) for level in (1.03 * BIN, BIN))
    assert speedup(slow, fast).verdict() == FASTER
    alone = [Timing(t.rounds[:15]) for t in (slow, fast)]
    assert speedup(*alone).verdict() == UNCLEAR
    assert speedup(*alone, elsewhere=False).verdict() == FASTER
    assert alone[0].width > 1.5 * slow.width and not alone[0].disagree


def test_states_that_other_rows_show_widen_an_agreement_by_chance_in_times_of_their_class(rng):
    lucky, torn = processes(rng, [BIN] * 3), processes(rng, [BIN, 1.19 * BIN, BIN])
    found = stats.states_of(lucky, [lucky, torn, processes(rng, [BIN] * 3)])
    assert found == pytest.approx(np.std(np.log([1, 1.19, 1]), ddof=1), rel=0.02)
    assert stats.states_of(lucky, [lucky]) == stats.states_of(processes(rng, [BIN / 20] * 3), [torn]) == 0
    low, high = speedup(lucky, lucky).low, speedup(lucky, Timing(lucky.rounds, lucky.processes, states=found)).low
    assert high < 0.95 < low


def test_the_first_processes_keep_the_step_of_the_clock():
    """Of all samples, since a few of them may differ by more."""
    taken = Timing([[4.0e-6, 4.064e-6], [4.0e-6, 4.032e-6]], [1, 1])
    assert taken.until(1).one_step == pytest.approx(32e-9 / 4.032e-6) and taken.until(2).rounds == taken.rounds


def test_short_times_may_differ_by_a_few_steps_and_agree(rng):
    assert not processes(rng, [4.03e-6, 4.42e-6, 4.22e-6]).disagree  # gelu_vec, small
    assert processes(rng, [10.98e-6, 13.05e-6, 11.01e-6]).disagree  # torch.compile, large


def test_a_process_that_failed_is_no_process(rng):
    whole = processes(rng, [BIN, 1.3 * BIN, BIN])
    partly = Timing(whole.rounds[:15] + whole.rounds[30:], [15, 0, 15])
    assert len(partly.parts) == 2 and len(partly.by_process) == 3 and not partly.disagree
    assert speedup(partly, partly).value == 1
    ratio = speedup(whole, partly)  # no longer paired
    assert ratio.low < 1 < ratio.high
    assert Timing(whole.rounds, [1, 2]).parts == [whole.rounds]  # a file that contradicts itself


def test_a_process_that_timed_one_side_only_does_not_count():
    rng = np.random.default_rng(5)
    one, other = processes(rng, [BIN, BIN, BIN, BIN]), processes(rng, [BIN / 2, BIN / 2])
    both = speedup(one, Timing(other.rounds, [15, 0, 0, 15]))
    assert both.value == pytest.approx(2, rel=0.002)
    assert len(Timing(other.rounds, [15, 0, 0, 15]).parts) == 2
    assert both.high / both.low < speedup(one, Timing(other.rounds[:15], [15, 0, 0, 0])).high / both.low


def test_who_is_chosen_in_one_process_is_judged_without_bias_in_the_others():
    """The fastest of eight equal peers: by the times that chose it, it seems faster than an equal variant."""
    rng = np.random.default_rng(6)
    seemed, judged, held, alone = [], [], 0, 0
    for _ in range(60):
        ours, *peers = (processes(rng, BIN * np.exp(0.01 * rng.standard_normal(3)), rounds=4) for _ in range(9))
        lucky, chosen = min(peers, key=lambda t: t.median), min(peers, key=lambda t: t.first)
        seemed.append(np.log(speedup(ours, lucky).value))
        ratio, later = judged_by_later(speedup(ours, chosen), ours, chosen), speedup(ours.later, chosen.later)
        judged.append(np.log(ratio.value))
        held += ratio.low < 1 < ratio.high
        alone += np.log(later.high / later.low) > 3 * np.log(ratio.high / ratio.low)
        assert ratio.value == later.value
    error = np.std(judged) / np.sqrt(len(judged))
    assert np.mean(seemed) > 0.005
    assert abs(np.mean(judged)) < 3 * error < 0.005
    assert held >= 0.93 * 60 and alone > 5  # the two later processes alone often give an interval thrice as wide


def test_one_process_alone_chooses_and_judges():
    taken = Timing([[BIN], [BIN]])
    assert taken.later is taken and taken.first == BIN


def test_a_drift_of_the_machine_cancels_in_the_speedup():
    drift = BIN * np.linspace(1, 3, 20)
    slow, fast = (Timing([[factor * d] * 5 for d in drift] * 3, [20] * 3) for factor in (2.0, 1.0))
    ratio = speedup(slow, fast)
    assert ratio.value == pytest.approx(2) and ratio.high / ratio.low < 1.03
    assert speedup(slow, fast, paired=False).high / speedup(slow, fast, paired=False).low > 1.1


def test_equal_processes_still_may_differ():
    constant = Timing([[BIN] * 9] * 30, [10] * 3)
    ratio = speedup(constant, constant)
    assert ratio.low < 1 < ratio.high and 0.005 < ratio.high - ratio.low < 0.03
    assert constant.interval[0] < BIN < constant.interval[1]


# --- The step of the clock


def test_samples_on_one_multiple_know_their_time_to_half_a_step():
    rounds = [[4.0e-6, 4.032e-6, 4.128e-6]]
    steps = [Timing(rounds)._step, Timing(rounds, step=1e-6)._step]
    assert steps == [pytest.approx(32e-9), 1e-6]  # the smallest difference of samples, unless it is known
    stuck = Timing([[4e-6] * 8] * 30, [10] * 3, step=160e-9)
    assert stuck.rounding == pytest.approx(0.02)
    assert speedup(stuck, stuck).verdict() == UNCLEAR
    assert stuck.interval[0] < 3.92e-6 and stuck.interval[1] > 4.08e-6


def test_noise_wider_than_a_step_averages_it_out(rng):
    times = np.round(4.05e-6 * (1 + 0.03 * rng.standard_normal((60, 8))) / 160e-9) * 160e-9
    taken = Timing(times.tolist(), [20] * 3)
    assert taken.rounding < 1e-3
    assert np.exp(taken.estimate.value) == pytest.approx(4.05e-6, rel=0.005)


def test_times_in_steps_are_compared_as_finely_as_times_without(rng):
    """Times of a few microseconds on a GPU: most samples are one of two values 5 % apart."""
    for _ in range(20):
        one, other = (Timing(rng.choice([4.0e-6, 4.2e-6], (100, 8)).tolist()) for _ in range(2))
        ratio = speedup(one, other, elsewhere=False)
        assert ratio.high - ratio.low < 0.03 and ratio.verdict() == SAME


# --- One process by itself


@pytest.mark.parametrize(("rounds", "samples"), [(2, 1), (3, 1), (4, 1), (5, 1), (10, 10)])
def test_the_medians_interval_holds_what_it_says(rounds, samples):
    """Of few samples, whose extremes are no 95 % interval, too."""
    rng, inside = np.random.default_rng(rounds), 0
    for _ in range(1000):
        low, high = stats.median_interval([np.exp(0.1 * rng.standard_normal(samples)) for _ in range(rounds)])
        inside += low <= 1 <= high
    assert inside >= 930
    assert inside <= 985 or rounds < 10


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("rounds", [2, 3, 4, 5, 9])
def test_few_rounds_promise_no_more_than_they_know(rounds, paired):
    """At most a twentieth of the 95 % intervals may miss the truth, and claim a difference where there is none."""
    rng, missed, claimed = np.random.default_rng(rounds), 0, 0
    for _ in range(400):
        a, b = (Timing([[t] for t in BIN * np.exp(rng.normal(0, 0.03, rounds))]) for _ in range(2))
        ratio = speedup(a, b, paired=paired, elsewhere=False)
        assert 0 < ratio.low <= ratio.value <= ratio.high
        missed += not ratio.low <= 1 <= ratio.high
        claimed += ratio.verdict() in (FASTER, SLOWER)
    assert missed <= 0.08 * 400
    assert claimed <= 0.05 * 400


def test_one_round_says_nothing():
    ratio = speedup(Timing([[1.0] * 9]), Timing([[0.5] * 9]))
    assert ratio.verdict() == UNCLEAR and ratio.says_nothing
    assert Timing([[1.0]]).width == np.inf
    assert speedup(Timing([[1.0]]), Timing([[0.5]]), paired=False).verdict() == UNCLEAR
    three = Timing([[1.0], [1.01], [1.02]], [1, 1, 1])  # of each of three processes it says something
    assert speedup(three, Timing([[0.5], [0.51], [0.5]], [1, 1, 1])).verdict() == FASTER


def test_slow_noise_of_one_process_widens_its_interval(rng):
    level = np.cumsum(0.003 * rng.standard_normal(200))
    wandering = estimate.midmean(level)
    assert wandering.inflation > 10
    assert estimate.midmean(rng.permutation(level)).inflation < 2


# --- Verdicts


@pytest.mark.parametrize(("low", "high", "verdict"), [
    (1.05, 1.10, FASTER), (0.90, 0.95, SLOWER), (0.995, 1.005, SAME), (1.001, 1.01, SAME),
    (0.99, 1.05, UNCLEAR), (1.01, 1.03, UNCLEAR), (0.9, 1.1, UNCLEAR), (0.95, 0.99, UNCLEAR),
])  # fmt: skip
def test_verdicts_claim_no_more_than_the_interval(low, high, verdict):
    assert Ratio((low + high) / 2, low, high).verdict(0.02) == verdict


def test_the_inner_interval_decides_what_is_the_same_and_nothing_else():
    assert Ratio(1.0, 0.975, 1.025).verdict() == UNCLEAR
    assert Ratio(1.0, 0.975, 1.025, inner=0.7).verdict() == SAME
    assert Ratio(1.04, 1.015, 1.065, inner=0.7).verdict() == UNCLEAR
    assert Ratio(1.0, 0.975, 1.025, inner=0.7).over(1.01).inner == 0.7


def test_two_modes_are_seen_and_one_is_not_whatever_outliers_there_are():
    rng = np.random.default_rng(4)
    one = [list(1 + 0.01 * rng.standard_normal(5)) for _ in range(20)]
    two = [[level * (1 + 0.001 * rng.standard_normal()) for level in (1, 1, 1, 1.2, 1.2)] for _ in range(20)]
    outlier = [[1 + 0.001 * rng.standard_normal() for _ in range(4)] + [1.5 if i == 3 else 1.0] for i in range(20)]
    low, high = rng.normal(1, 0.005, 25), rng.normal(1.2, 0.005, 25)
    assert not any(map(stats.bimodal, (one, outlier, [[*low, *high[:4], 2.0]])))
    assert all(map(stats.bimodal, (two, [[*low, *high]], [[*low, *high, 2.0, 0.1]])))


@pytest.mark.parametrize(("samples", "width"), [([[1.0] * 10] * 3, 0), ([[0.9, 1.0, 1.1] * 4], 0.2)])
def test_width_is_relative(samples, width):
    assert stats.relative_width(samples) == pytest.approx(width)


# --- Student's t


@pytest.mark.parametrize(("share", "table", "z"), [(0.975, estimate.STUDENT, estimate.NORMAL),
                                                   (0.95, estimate.STUDENT_90, estimate.NORMAL_90)])  # fmt: skip
@pytest.mark.parametrize("freedom", [1, 2, 3.7, 8, 8.9, 9, 12.5, 30, 1e9])
def test_the_quantiles_are_those_of_scipy_or_larger(freedom, share, table, z):
    exact, found = scipy_stats.t.ppf(share, freedom), estimate.student(freedom, table, z)
    assert exact - 1e-3 <= found
    assert found == pytest.approx(exact, abs=1e-3) or freedom != int(freedom)


def test_the_difference_of_two_estimates_is_welchs():
    one, other = estimate.Estimate(1.0, 0.04, 4, 0.01), estimate.Estimate(0.5, 0.01, 2, 0.02)
    found = one - other
    assert (found.value, found.variance, found.bound) == pytest.approx((0.5, 0.05, 0.03))
    assert found.freedom == pytest.approx(0.05**2 / (0.04**2 / 4 + 0.01**2 / 2))
