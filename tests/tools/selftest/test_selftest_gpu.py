"""The GPU's part of `cudalab selftest`: verdicts on right and wrong numbers, and a run on a GPU."""

from __future__ import annotations

import re
from ast import literal_eval

import pytest
from tables import table

from cudalab.base.errors import LaunchError
from cudalab.device.operands import Bound
from cudalab.tools import selftest
from cudalab.tools.selftest import FAILED, PASSED, SKIPPED
from cudalab.tools.selftest import gpu as on_gpu
from cudalab.tools.selftest.check import Check
from cudalab.tools.selftest.comparison import COARSEST, Comparison

NOTHING = Bound(lambda: None, lambda: None)


class FakeSpin:
    cycles = 500_000

    def __init__(self, seconds):
        self.seconds = seconds

    def rate(self):
        return 1.98e9


@pytest.mark.parametrize(("lie", "ok"), [(1.0, True), (1.02, True), (1.05, False), (0.8, False), (1.2, False)])
def test_known_cycles(lie, ok):
    spins = [FakeSpin(250e-6), FakeSpin(500e-6)]
    floor = 3e-6
    found = {"0": {"cold": 250e-6 + floor, "hot": lie * 250e-6}, "1": {"cold": 500e-6 + floor, "hot": lie * 500e-6}}
    outcome = on_gpu.known_cycles(spins, found)
    assert outcome.ok == ok
    assert re.search(r"cold [+-]0\.00 %", outcome.measured)


def test_events_and_the_host_must_agree_and_naive_timing_must_be_wrong():
    assert on_gpu.agree(0.1, 0.1005).ok
    assert not on_gpu.agree(0.1, 0.102).ok
    assert not on_gpu.agree(0.1, 0.098).ok
    assert on_gpu.shown_wrong(5e-6, 500e-6).measured.endswith("a factor of 100")
    assert on_gpu.shown_wrong(0, 500e-6).ok
    assert not on_gpu.shown_wrong(500e-6, 500e-6).ok
    assert not on_gpu.known_cycles([FakeSpin(1e-3), FakeSpin(2e-3)], {"0": {}, "1": {}}).ok


@pytest.mark.parametrize(
    ("seconds", "wrong", "ok"), [(0.25, 0, True), (0.25, 1, False), (0.19, 0, False), (0.41, 0, False)]
)
def test_a_bandwidth_must_be_possible_and_not_poor(seconds, wrong, ok):
    assert on_gpu.possible(10**9, seconds, 5e9, wrong).ok == ok


@pytest.mark.parametrize(("numbers", "ok"), table("selftest", "stray work", str, literal_eval))
def test_stray_work_must_be_caught(numbers, ok):
    assert on_gpu.caught(500e-6, *map(float, numbers.split())).ok == ok


class FakeGraph:
    def __init__(self, runs, kernels):
        self.runs, self.kernels = runs, kernels

    def close(self):
        pass


def test_a_capture_of_nothing_must_be_refused_and_a_real_one_accepted():
    real, other = Bound(lambda: 1, lambda: None), Bound(lambda: 2, lambda: None)

    def maker(*refused, kernels=4):
        def make(bound):
            if bound in refused:
                raise LaunchError("captured as 0 kernels")
            return FakeGraph(4, kernels)

        return make

    def ok(make):
        return on_gpu.refused(make, NOTHING, other, real).ok

    assert ok(maker(NOTHING, other))
    assert not ok(maker())
    assert not ok(maker(NOTHING))
    assert not ok(maker(other))
    assert not ok(maker(NOTHING, other, kernels=1))
    finding = selftest._asked(
        Check("x", "", "", lambda: on_gpu.refused(maker(NOTHING, other, real), NOTHING, other, real))
    )
    assert finding.state == FAILED


@pytest.mark.parametrize(
    ("throttled", "ok"),
    [("", True), ("power cap", True), ("hardware thermal slowdown", False), ("power cap, hardware power brake", False)],
)
def test_throttling(throttled, ok):
    condition = {"sm_hz": 1.98e9, "memory_hz": 3.2e9, "power_w": 400, "power_limit_w": 700, "temperature_c": 50}
    outcome = on_gpu.unhindered({**condition, "throttled": throttled})
    assert outcome.ok == ok
    assert f"slowed by {throttled or 'nothing'}" in outcome.measured


@pytest.mark.wall
@pytest.mark.gpu
def test_the_gpu_passes_every_check_that_can_be_asked(gpu):
    report = selftest.examine(gpu, 5, print)
    states = {f.name: f.state for f in report.findings}
    for name, state in states.items():
        assert state == PASSED or (name in ("throttling", "empty capture") and state == SKIPPED), report.findings
    assert len(states) == 11
    assert 0 < report.smallest < COARSEST
    gpu.release()


@pytest.mark.wall
@pytest.mark.gpu
def test_a_gpu_clock_that_lies_by_a_fifth_is_caught(gpu, lying_clocks):
    lying_clocks(gpu, 1.2)
    (check,) = (c for c in on_gpu.checks(gpu, Comparison(gpu, 0.1)) if c.name == "known cycles")
    assert selftest._asked(check).state == FAILED
    gpu.release()
