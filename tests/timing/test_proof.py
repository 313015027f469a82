"""What shows that a variant keeps answers: contents that it meets for the first time take longer."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab.base.errors import LaunchError
from cudalab.timing.proof import Contents, Proof


@pytest.fixture
def proof():
    drawn = []
    contents = Contents(3, lambda number, operands: None, np.random.default_rng(0), lambda: drawn.append(1))
    return Proof(contents, lambda contents, result, digest: None)


def test_a_first_meeting_that_is_as_fast_is_no_suspicion(proof):
    proof.meet([0, 1, 0, 1], [5e-6, 5.5e-6, 5e-6, 5e-6])
    assert (proof.suspicions, proof.contents.count) == (0, 3)


def test_slow_first_meetings_in_a_row_are_an_answer_that_is_kept(proof):
    for number in (1, 2):
        proof.meet([0, number, 0, number], [5e-6, 9e-6, 5e-6, 5e-6])
    assert proof.contents.count == 5  # contents that nobody has met
    proof.meet([0, 1, 2], [5e-6, 5e-6, 5e-6])  # nothing new
    with pytest.raises(LaunchError, match="it stores answers: 9 us on contents that it sees for the first time, 5 us"):
        proof.meet([0, 3], [5e-6, 9e-6])


def test_a_disturbance_is_none(proof):
    for number, seconds in enumerate((90e-6, 5e-6, 90e-6, 5e-6, 90e-6, 5e-6, 5e-6), 1):
        proof.meet([0, number, 0], [5e-6, seconds, 5e-6])
    assert proof.suspicions == 0


def test_a_disturbed_round_hides_nothing_for_long(proof):
    for number in (1, 2):
        proof.meet([0, number, 0], [5e-6, 90e-6, 5e-6])
    proof.meet([0, 3, 0, 0], [5e-6, 90e-6, 95e-6, 96e-6])
    proof.meet([0, 4, 0], [5e-6, 90e-6, 5e-6])
    with pytest.raises(LaunchError, match="it stores answers"):
        proof.meet([0, 5, 0], [5e-6, 90e-6, 5e-6])


def test_a_small_difference_is_none(proof):
    for number in range(1, 9):
        proof.meet([0, number], [5e-6, 7e-6])
    assert proof.suspicions == 0
