"""A study's load on the CPU stand-in: what is enqueued, and which part of it is timed."""

from __future__ import annotations

from statistics import median
from time import perf_counter

import pytest

from cudalab.study import found
from cudalab.study.lab import Lab
from cudalab.study.load import SAMPLES, Load
from cudalab.tools.selftest.gpu import Spin

CYCLES = 200_000


@pytest.mark.wall
def test_times_are_of_single_runs_after_the_load(fake):
    lab = Lab(fake, found.Workload(found.study("clocks"), "tiny"), 0, lambda phase: None)
    spin, runs = Spin(fake, CYCLES), []
    seconds = CYCLES * 1e-9  # the stand-in's clock counts nanoseconds

    def run():
        runs.append(perf_counter())
        spin.run()

    load = Load(lab, run)
    load.sample(0.0)
    runs.clear()
    start = perf_counter()
    taken = load.sample(0.05, rest=0.02)
    assert runs[0] - start >= 0.02
    assert runs[-1] - runs[0] >= 0.05
    assert len(taken) == SAMPLES
    assert min(taken) > 0.9 * seconds and median(taken) < 50 * seconds  # the time of a run, on a busy CPU too
    assert load.condition() == {}  # no NVML
    # Nothing is left under way, and the host was never far ahead of the device.
    begun = perf_counter()
    lab.synchronize()
    assert perf_counter() - begun < 0.5
