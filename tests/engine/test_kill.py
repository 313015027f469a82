"""SIGKILL at random moments loses nothing and leaves nothing behind; `bench/kill.py` does more of them."""

from __future__ import annotations

import kill
import pytest

from cudalab import host

MOMENTS = 20
GRACE = 20.0  # seconds: other tests keep the processors busy


@pytest.mark.process
@pytest.mark.sweep
@pytest.mark.wall
@pytest.mark.skipif(host.compiler_missing() is not None, reason="no C++ compiler")
def test_a_killed_run_loses_nothing_and_leaves_nothing(tmp_path):
    every = kill.moments(MOMENTS, 0, tmp_path, grace=GRACE)
    found = kill.counts(every)
    assert found.pop("moments") == MOMENTS
    assert found.pop("ended before") < MOMENTS / 2
    assert found.pop("with finished groups") >= MOMENTS / 4
    assert set(found.values()) == {0}, [one for one in every if one.processes or one.files or one.invalid or one.lost]
