"""What shows that a variant keeps answers: contents that it meets for the first time take longer."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cudalab.base.errors import LaunchError
from cudalab.results.file import load
from cudalab.timing.proof import CPU, Contents, Proof


def a_proof(limits=None, rng=None, **more):
    """Of a variant with three contents."""
    rng = rng or np.random.default_rng(0)
    contents = Contents(3, lambda number, operands: None, rng, lambda: None, last=more.pop("last", False))
    return Proof(contents, lambda *result: None, *([limits] if limits else []), **more)


@pytest.fixture
def proof():
    return a_proof()


REUSES = "it reuses stored results"


def test_a_first_meeting_that_is_as_fast_is_no_suspicion(proof):
    proof.meet([0, 1, 0, 1], [5e-6, 5.5e-6, 5e-6, 5e-6])
    assert (proof.suspicions, proof.contents.count) == (0, 3)


def test_slow_first_meetings_in_a_row_are_an_answer_that_is_kept(proof):
    for number in (1, 2):
        proof.meet([0, number, 0, number], [5e-6, 9e-6, 5e-6, 5e-6])
    assert proof.contents.count == 5  # contents that nobody has met
    proof.meet([0, 1, 2], [5e-6, 5e-6, 5e-6])  # nothing new
    with pytest.raises(LaunchError, match=r"it reuses stored results: 9\.00 µs for new inputs, 5\.00 µs"):
        proof.meet([0, 3], [5e-6, 9e-6])


@pytest.mark.parametrize(
    "seconds", [(90e-6, 5e-6, 90e-6, 5e-6, 90e-6, 5e-6, 5e-6), (7e-6,) * 8], ids=["disturbances", "a small difference"]
)
def test_a_disturbance_or_a_small_difference_is_none(proof, seconds):
    for number, new in enumerate(seconds, 1):
        proof.meet([0, number, 0], [5e-6, new, 5e-6])
    assert proof.suspicions == 0


def test_a_disturbed_round_hides_nothing_for_long(proof):
    for number in (1, 2):
        proof.meet([0, number, 0], [5e-6, 90e-6, 5e-6])
    proof.meet([0, 3, 0, 0], [5e-6, 90e-6, 95e-6, 96e-6])
    proof.meet([0, 4, 0], [5e-6, 90e-6, 5e-6])
    with pytest.raises(LaunchError, match=REUSES):
        proof.meet([0, 5, 0], [5e-6, 90e-6, 5e-6])


def refuses(call):
    """Whether it raises that answers are kept, or does not confirm a time."""
    try:
        return call() is False
    except LaunchError as error:
        assert REUSES in str(error)
        return True


def meet(proof, rng, seconds):
    """100 rounds of five samples; `seconds(first)` is the time of one."""
    for _ in range(100):
        numbers = [int(n) for n in rng.integers(proof.contents.count, size=5)]
        new = [number not in proof.met and number not in numbers[:i] for i, number in enumerate(numbers)]
        proof.meet(numbers, [seconds(first) for first in new])


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_on_a_busy_cpu_an_honest_variant_is_not_refused_and_kept_answers_still_are(share):
    """A busy CPU delays this share of the samples, whether their contents are new or not."""
    rng = np.random.default_rng(0)

    def delayed():
        return 18e-3 if rng.random() < share else 2e-3

    def refused(more):
        proof = a_proof(CPU, rng)
        return refuses(lambda: meet(proof, rng, lambda first: delayed() + (more if first else 0)))

    def refused_at_the_end(more):
        proof = a_proof(CPU, rng, last=True, met={0, 1, 2})
        late = {True: 0.0, False: more}
        return refuses(lambda: proof.confirm(lambda: delayed() - 1.8e-3 + late[proof.change() in proof.met], 2e-4))

    assert not any(refused(0.0) or refused_at_the_end(0.0) for _ in range(300))
    assert all(refused(0.2) for _ in range(20)) and all(refused_at_the_end(0.2) for _ in range(50))


def test_late_contents_are_met_one_at_a_time_at_a_sample_and_a_round_that_are_drawn(proof):
    proof.late = True
    assert not any(proof.late_meeting(8) for _ in range(50))  # the first round
    proof.rounds = 1
    assert {proof.change() for _ in range(50)} == {0, 1}
    found = [proof.late_meeting(8) for _ in range(200)]
    assert 60 < found.count(None) < 140
    assert {late[0] for late in found if late} == set(range(1, 8)) and {late[1] for late in found if late} == {2}
    assert proof.late_meeting(1) is None
    proof.met.add(2)
    assert {proof.change() for _ in range(50)} == {0, 1, 2}
    assert not any(proof.late_meeting(8) for _ in range(50))


def kept_share(rounds, share, rng):
    """Whether a variant that took these samples is refused where it saves this share on contents that it has met."""
    proof = a_proof(rng=rng, last=True, late=True)
    seen, taken = {0}, []

    def timed(seconds, number=None):
        with proof.on(number) if number is not None else nullcontext():
            number = proof.change()
        known = number in seen
        seen.add(number)
        return number, seconds * (1 - share if known else 1)

    def run():
        for samples in rounds:
            place, new = proof.late_meeting(len(samples)) or (-1, None)
            found = [timed(s, new if i == place else None) for i, s in enumerate(samples)]
            proof.meet(*zip(*found, strict=True))
            taken.extend(seconds for _, seconds in found)
        last = [s for samples in rounds for s in samples]
        proof.confirm(lambda: timed(float(rng.choice(last)))[1], float(np.median(taken)))

    return refuses(run)


def test_what_is_slow_follows_the_noise_of_committed_samples():
    """A share of the answers that is kept is found where times are steady, and no honest row is refused."""
    rng, of = np.random.default_rng(0), Path(__file__).parents[2] / "bench" / "results" / "h200" / "gelu.json"
    rows = [case.times["cold"][:8] for case in load(of).cases if len(case.times.get("cold", [[]])[0]) == 8]
    steady = [rounds for rounds in rows if np.median(rounds) > 120e-6]
    assert len(rows) > 100 and len(steady) > 20
    assert sum(kept_share(rounds, 0, rng) for rounds in rows) == 0
    assert np.mean([kept_share(rounds, 0.05, rng) for rounds in steady]) > 0.9
    assert np.mean([kept_share(rounds, 0.4, rng) for rounds in rows]) > 0.95


@pytest.fixture
def at_the_end():
    return a_proof(last=True, met={0, 1, 2})


def timed_on(proof, seconds, known=5e-6):
    """A sample that takes so long on each new contents in turn, and the new contents that it had."""
    had, left = [], list(seconds)

    def sample():
        number = proof.change()
        if number in proof.met:
            return known
        had.append(number)
        return left.pop(0)

    return sample, had


@pytest.mark.parametrize(
    ("met", "seconds", "had"),
    [
        ({0, 1, 2}, [5.5e-6], [3]),  # contents that nobody has met
        ({0, 2}, [5.5e-6], [1]),  # others have met it
        ({0, 1, 2}, [90e-6, 5e-6], [3, 4]),  # a disturbed run refutes nothing
    ],
)
def test_a_time_is_confirmed_by_a_run_on_contents_that_are_new_to_the_variant(at_the_end, met, seconds, had):
    at_the_end.met = met
    sample, new = timed_on(at_the_end, seconds)
    assert at_the_end.confirm(sample, 5e-6)
    assert (new, at_the_end.contents.count, at_the_end.due) == (had, max(3, had[-1] + 1), None)


def test_answers_that_are_kept_when_all_contents_have_been_met_are_found_at_the_end(at_the_end):
    at_the_end.limits = replace(at_the_end.limits, tries=3)
    sample, had = timed_on(at_the_end, [9e-6, 9e-6, 9.5e-6])
    with pytest.raises(LaunchError, match=r"it reuses stored results: 9\.50 µs for new inputs, 5\.00 µs"):
        at_the_end.confirm(sample, 5e-6)
    assert had == [3, 4, 5]


def test_single_runs_that_are_all_slow_refute_nothing_unless_a_sample_of_several_is_fast(at_the_end):
    """A busy machine wakes threads late, whatever a run's inputs are; within a sample nothing changes."""
    at_the_end.limits = CPU
    sample, had = timed_on(at_the_end, [11.7e-3] * CPU.tries, known=11e-3)
    assert at_the_end.confirm(sample, 209e-6)
    assert len(had) == CPU.tries
    sample, _ = timed_on(at_the_end, [2e-3] * CPU.tries, known=2e-3)
    with pytest.raises(LaunchError, match="it reuses stored results: 2,000 µs for new inputs, 209 µs"):
        at_the_end.confirm(sample, 209e-6, lambda: 200e-6)


def test_a_lack_of_memory_is_told_and_no_time_is_lost(at_the_end):
    def lacks():
        raise MemoryError

    at_the_end.contents.draw = lacks
    assert not at_the_end.confirm(lambda: 1.0, 5e-6)
    assert at_the_end.contents.count == 3


def test_large_inputs_are_confirmed_by_one_process(proof):
    assert proof.confirm(lambda: 1.0, 5e-6)  # in the others
