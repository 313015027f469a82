"""Rounds and the stop rule, with clocks whose truth is known."""

from __future__ import annotations

from functools import partial
from itertools import groupby, pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from cudalab.base import stats
from cudalab.base.errors import InputError, LaunchError
from cudalab.timing import energy, load, sustained
from cudalab.timing import rounds as measure
from cudalab.timing.clock import Clock
from cudalab.timing.load import BEAT, GAPS, paced

WORK = SimpleNamespace(runs=1, before=int, run=int, verify=int, repeat=int)


def clock(seconds, samples=5, **how):
    return Clock(lambda: [seconds() for _ in range(samples)], **how)


def quiet():
    return clock(lambda: 1.0)


def noisy(high=2.0, **how):
    rng = np.random.default_rng(0)
    return clock(lambda: rng.uniform(1, high), **how)


def rounds(budget=10, **clocks):
    """How many rounds each of these variants takes, whose only time is t."""
    taken = measure.take({name: {"t": one} for name, one in clocks.items()}, 0, budget)
    assert all(one.seconds > 0 for one in taken.values())
    return [len(one.rounds["t"]) for one in taken.values()]


@pytest.mark.parametrize("how", ["shuffled", "blocked"])
def test_rounds_are_interleaved_in_changing_order_unless_they_are_to_be_blocked(how):
    order = []
    clocks = {name: {"t": clock(lambda name=name: order.append(name) or 1.0, 1)} for name in "abc"}
    taken = measure.take(clocks, seed=0, budget=1, order=how)
    assert list(taken) == ["a", "b", "c"]
    assert all(len(t.rounds["t"]) == measure.LEAST_ROUNDS for t in taken.values())
    found = ["".join(order[i : i + 3]) for i in range(0, len(order), 3)]
    if how == "shuffled":
        assert all(sorted(one) == ["a", "b", "c"] for one in found) and len(set(found)) > 1
    else:
        assert [name for name, _ in groupby(order)] == list(dict.fromkeys(order))


def test_noise_gets_more_rounds_than_silence_while_the_budget_lasts():
    assert rounds(q=quiet()) == rounds(1e-9, n=noisy()) == [measure.LEAST_ROUNDS]
    assert rounds(n=noisy()) == [measure.MOST_ROUNDS]
    # Rounds that differ need more of them than samples that do.
    assert rounds(within=noisy(1.03, samples=99)) == [measure.LEAST_ROUNDS]
    rng = np.random.default_rng(0)
    assert rounds(between=Clock(lambda: [rng.uniform(1, 1.03)] * 99))[0] > measure.LEAST_ROUNDS


def test_a_clock_says_how_well_its_median_is_to_be_known():
    rough = noisy(1.1, samples=1, width=0.05)
    taken = measure.take({"r": {"call": rough}, "f": {"t": quiet()}}, 0, 10)
    assert measure.LEAST_ROUNDS < len(taken["r"].rounds["call"]) < measure.MOST_ROUNDS
    assert taken["r"].settled("call")


def test_what_is_known_for_all_variants_is_not_taken_again():
    clocks = {"a": {"cold": quiet(), "hot": noisy()}, "b": {"cold": quiet(), "hot": quiet()}}
    taken = {label: {kind: len(r) for kind, r in t.rounds.items()} for label, t in measure.take(clocks, 0, 10).items()}
    assert taken["a"] == taken["b"] == {"cold": measure.LEAST_ROUNDS, "hot": measure.MOST_ROUNDS}


@pytest.mark.parametrize(
    ("error", "said"), [(ValueError("no such luck"), "ValueError: no such luck"), (InputError("give 1"), "give 1")]
)
def test_one_failing_variant_costs_itself(error, said):
    def fails():
        raise error

    taken = measure.take({"bad": {"t": clock(fails)}, "good": {"t": quiet()}}, 0, 1)
    assert taken["bad"].error == f"failed while it was timed: {said}"
    assert taken["good"].error == ""
    assert stats.median(taken["good"].rounds["t"]) == 1


class Card:
    """Draws 400 W, steps its counter every 0.1 s, and runs 1,000 times a second. Its time passes when asked."""

    def __init__(self, watts=400.0, still=False):
        self.time, self.watts, self.still, self.reads = 3.017, watts, still, 0

    def read(self):
        self.reads += 1
        return 0.0 if self.still else self.watts * 0.1 * (self.time // 0.1)

    def now(self):
        return self.time

    def advance(self, seconds=0.002):
        self.time += seconds
        return int(1000 * self.time)


@pytest.mark.parametrize("seconds", [0.05, 2.0])
def test_a_window_begins_and_ends_at_a_step_of_the_counter(seconds):
    card = Card()
    found = energy.window(card.read, seconds, card.advance, card.now)
    assert seconds <= found.seconds <= seconds + 0.105
    assert found.joules / found.seconds == pytest.approx(400, rel=0.03 if seconds < 1 else 0.002)
    assert found.joules / found.runs == pytest.approx(0.4, rel=0.03 if seconds < 1 else 0.002)
    assert card.reads * energy.READ < 2 * (0.1 + energy.EARLY)  # at both ends of a window, whatever its length
    with pytest.raises(LaunchError, match="has not moved for 1 s"):
        energy.window(Card(still=True).read, seconds, (still := Card()).advance, still.now)


@pytest.mark.parametrize(
    ("hertz", "settled"),
    [(lambda t: 1.98e9, 2.1), (lambda t: 1.98e9 - 3e8 * min(t, 2), 3.8), (lambda t: 1e9 + 3e7 * t, 0)],
)
def test_a_load_lasts_until_clock_and_power_are_steady_or_its_time_is_over(hertz, settled):
    card = Card()
    start = card.time
    steady, readings = sustained.settle(
        lambda: {"sm_hz": hertz(card.time - start), "power_w": 500.0}, card.advance, card.now
    )
    assert steady is bool(settled)
    assert card.time - start == pytest.approx(settled or sustained.LIMIT, abs=0.2)
    assert len(readings) > 10 * (settled or sustained.LIMIT) - 5
    assert sustained.settle(dict, card.advance, card.now) == (False, [])  # without NVML: the whole time
    start = card.time
    steady, readings = sustained.settle(lambda: {"power_w": hertz(card.time - start)}, card.advance, card.now)
    assert (steady, bool(sustained.remarks(steady, readings, lambda *names: "Not Supported"))) == (bool(settled), True)


@pytest.mark.parametrize(
    ("settled", "told", "notes"),
    [
        (True, ["sm_hz", "power_w"], []),
        (False, ["sm_hz", "power_w"], [sustained.UNSTEADY]),
        (True, ["power_w"], ["sustained: the SM clock is not seen: Not Supported"]),
        (False, ["sm_hz"], ["sustained: the power is not seen: Not Supported", sustained.UNSTEADY]),
        (False, [], [sustained.UNSEEN.format("Not Supported")]),
    ],
)
def test_a_note_says_what_of_a_load_was_not_steady_or_not_seen(settled, told, notes):
    readings = [(0.0, dict.fromkeys(told, 1.0))] if told else []
    assert sustained.remarks(settled, readings, lambda *names: "Not Supported") == notes


def test_signs_of_life_are_told_at_most_once_in_each_beat():
    card, told = Card(), []
    alive = paced(lambda: told.append(card.time), card.now)
    for _ in range(1000):
        card.advance()
        alive()
    spans = [later - earlier for earlier, later in pairwise(told)]
    assert min(spans) >= BEAT and max(spans) < 2 * BEAT


def test_the_host_stays_ahead_of_a_look_that_takes_long(monkeypatch):
    """Chunks of 2 ms, none of which ends before the host waits for it; then all end at once."""
    over, clock = [False], iter([0.0, 0.03, 1.0, 9.0])
    event = SimpleNamespace(record=lambda stream: None, wait=int, over=lambda: over[0])
    monkeypatch.setattr(load.driver, "Event", lambda: event)
    monkeypatch.setattr(load, "perf_counter", lambda: next(clock))
    runs = []
    loaded = load.Load(SimpleNamespace(handle=0), lambda: runs.append(0), 1e-3)
    assert [loaded.advance() for _ in range(4)] == [0, 0, 2, 4]
    assert loaded.look(lambda: "value") == "value"
    assert [loaded.advance() for _ in range(32)] == [4] * 30 + [6, 8]
    assert len(runs) - loaded.done == 2 * (load.AHEAD + 30)  # 60 ms
    over[0] = True
    assert loaded.advance() == len(runs)
    over[0] = loaded.look(lambda: False)  # takes 8 s
    for _ in range(400):
        loaded.advance()
    assert len(runs) - loaded.done == 2 * (load.AHEAD + load.FURTHEST / load.CHUNK)


def test_runs_that_skip_work_in_a_window_have_no_energy(monkeypatch):
    """A run of 1 ms, which takes so many in a batch on new contents."""
    card = Card()
    fake = SimpleNamespace(keep=card.advance, stop=int, alive=int, look=lambda read: read())
    device = SimpleNamespace(nvml=SimpleNamespace(energy=card.read), stream=None)
    monkeypatch.setattr(energy, "Load", lambda *given: fake)
    monkeypatch.setattr(energy, "idle_power", lambda device, alive: 75.0)
    monkeypatch.setattr(energy, "window", partial(energy.window, now=card.now))
    notes = []
    for batch, said in ((1e-3, None), (0.5e-3, GAPS.format("in an energy window")), (3e-3, LaunchError)):
        clock = energy.energy_clock(device, WORK, lambda: batch, 1e-3, notes)  # noqa: B023
        assert clock.sample() == [pytest.approx(0.4, rel=0.01)]
        if said is LaunchError:
            with pytest.raises(LaunchError, match="do runs reuse earlier results"):
                clock.quantities()
            continue
        assert clock.quantities() == {"energy_w": pytest.approx(400, rel=0.01), "idle_w": 75.0}
        assert notes == ([said] if said else [])


@pytest.mark.parametrize("skips", ["burst", "sustained"])
def test_runs_that_skip_work_in_a_burst_or_under_load_have_neither_time(monkeypatch, skips):
    """Runs of 1 ms, and of the same in a batch, but for those of one kind in a batch on new contents.

    Only a load without looks at NVML, which let the host run ahead, is `kept` up for a burst.
    """
    looked, kept = [], []

    def made(*given):
        def look(read):
            looked.append(fake)
            return read()

        fake = SimpleNamespace(
            keep=lambda seconds: kept.append(fake), stop=int, advance=int, look=look,
            samples=lambda meanwhile: meanwhile() or [1e-3] * 4,
        )  # fmt: skip
        return fake

    told = SimpleNamespace(under_load=lambda: {"sm_hz": 1e9}, why_untold=lambda *names: "")
    device = SimpleNamespace(nvml=told, stream=SimpleNamespace(synchronize=int))
    monkeypatch.setattr(sustained, "Load", made)
    monkeypatch.setattr(sustained, "REST", 0.0)
    monkeypatch.setattr(sustained, "settle", lambda read, advance: (True, [(0.0, {**read(), "power_w": 500.0})]))
    batch, notes = [1e-3], []
    clocks = sustained.sustained_clocks(device, WORK, lambda: batch[0], 1e-3, notes)
    for kind, clock in clocks.items():
        batch[0] = 3e-3 if kind == skips else 0.5e-3
        assert clock.sample() == [1e-3] * 4
    assert kept and looked and not any(one is other for one in kept for other in looked)
    skipped, whole = clocks.pop(skips), clocks.popitem()
    with pytest.raises(LaunchError, match="do runs reuse earlier results"):
        skipped.quantities()
    assert whole[1].quantities()[f"{whole[0]}_sm_hz"] == 1e9
    assert notes == [GAPS.format(sustained.WHERE[whole[0]])]
