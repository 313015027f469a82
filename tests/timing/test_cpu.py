"""The wall clock: results that are there only after it has stopped, and honest ones on a busy machine."""

from __future__ import annotations

from threading import Event, Thread
from time import sleep

import numpy as np
import pytest

from cudalab import timing
from cudalab.base.errors import LaunchError
from cudalab.device.cpu import Cpu
from cudalab.device.operands import Bound
from cudalab.timing.proof import Contents, Proof

N = 1 << 20


class Ahead:
    """x + 1, of which a thread writes all but the first elements once the call has returned."""

    def __init__(self, x, part):
        self.x, self.done, self.part = x, int(N * part), part
        self.result, self.begin = np.zeros(N, np.float32), Event()
        self.rest = Thread(target=self._rest, daemon=True)
        self.rest.start()

    def run(self):
        self.result = np.full(N, np.nan, np.float32)
        np.add(self.x[: self.done], 1, out=self.result[: self.done])
        self.begin.set()

    def _rest(self):
        while True:
            self.begin.wait()
            self.begin.clear()
            sleep(0.003)  # the clock has stopped
            np.add(self.x[self.done :], 1, out=self.result[self.done :])


@pytest.fixture
def proof():
    """Whoever judges here is slow, so that a thread may end its work before a digest is taken."""
    judged = []
    contents = Contents(2, lambda number, operands=None: None, np.random.default_rng(0), lambda: None)
    made = Proof(contents, lambda contents, result, digest, clock: judged.append((contents, float(result[-1]))))
    made.judged = judged
    return made


class Slow(Cpu):
    def fingerprint(self, array):
        sleep(0.02)
        return 0


def wall(run, output, proof, device=None):
    return timing.clocks(device or Cpu(), Bound(run, output), ("launch",), [], proof)["wall"]


@pytest.mark.wall  # its thread has to be late, and this process not
def test_a_result_that_is_written_after_the_return_is_refused(proof):
    work = Ahead(np.ones(N, np.float32), 0.5)
    clock = wall(work.run, lambda: work.result, proof, Slow())
    with pytest.raises(LaunchError, match="its result was still being written after it had returned"):
        clock.sample()
    assert proof.judged[-1][1] == 2  # the judge saw it whole


def test_a_result_that_is_there_is_taken(proof):
    result = np.zeros(N, np.float32)
    clock = wall(lambda: np.add(result, 1, out=result), lambda: result, proof, Slow())
    assert len(clock.sample()) == 5 and len(proof.judged) == 1


def test_what_is_computed_when_the_result_is_asked_for_is_timed():
    clock = wall(lambda: sleep(1e-4), lambda: sleep(0.005) or np.zeros(N, np.float32), None)
    assert min(clock.sample()) > 2e-3  # of a run and its share of asking


def test_a_short_call_is_warm_before_the_run_that_confirms_its_time(proof):
    """Its threads may sleep while contents are drawn; the first runs afterwards wake them."""
    calls, result = [], np.zeros(64, np.float32)
    proof.contents.last, proof.met = True, {0}
    clock = wall(lambda: calls.append(1), lambda: result, proof)
    calls.clear()
    clock.confirm([[1.0]])
    assert len(calls) > 10
