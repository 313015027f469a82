"""The GPU's checks of `cudalab selftest` on the CPU stand-in: that they run, and fail when what they look at is wrong.

The margins are not tested: the stand-in's times are those of a busy CPU.
"""

from __future__ import annotations

import re
from dataclasses import replace
from statistics import median

import pytest

from cudalab.tools import selftest
from cudalab.tools.selftest import FAILED, PASSED, SKIPPED
from cudalab.tools.selftest import gpu as on_gpu
from cudalab.tools.selftest.comparison import Comparison


def asked(device, name):
    (check,) = (c for c in on_gpu.checks(device, Comparison(device, 0.1)) if c.name == name)
    return selftest._asked(check)


@pytest.mark.sweep
def test_every_check_measures_something(fake):
    shown = []
    report = selftest.examine(fake, 0.1, shown.append)
    said = {f.name: f.measured for f in report.findings}
    assert shown == report.findings
    clock = re.search(r"500000 cycles at (\d\.\d+) GHz are ([\d.]+) µs; off by cold", said["known cycles"])
    assert float(clock[1]) * float(clock[2]) == pytest.approx(500, rel=0.2)
    assert re.search(r"ms by events, .* ms by the host", said["host's clock"])
    assert re.search(r"64 MiB at \d+ GB/s, .* % of a bus of 2048$", said["known bytes"])
    assert "on another stream as" in said["wrong stream"]
    assert "wrong by a factor of" in said["naive timing"]
    assert "intervals lie within" in said["A/A small"]
    assert "intervals lie within" in said["A/A large"]
    assert re.search(r"\(\d+ %\).* in 3 processes$", said["A/A processes"]), said["A/A processes"]
    assert report.smallest > 0
    states = {f.name: f.state for f in report.findings}
    assert said["empty capture"] == "nothing was refused, work elsewhere was refused, 4 runs were captured as 4 kernels"
    assert states["empty capture"] == PASSED
    assert states["throttling"] == SKIPPED  # NVML knows no such device


@pytest.mark.sweep
def test_a_lying_clock_fails_the_known_cycles(fake, lying_clocks):
    lying_clocks(fake, 2)
    assert asked(fake, "known cycles").state == FAILED
    assert asked(fake, "wrong stream").state == FAILED


def test_a_copy_that_does_not_copy_fails_the_known_bytes(fake, monkeypatch):
    real = fake.copy
    monkeypatch.setattr(fake, "copy", lambda nbytes: replace(real(nbytes), run=lambda: None))
    finding = asked(fake, "known bytes")
    assert finding.state == FAILED
    assert "words were not copied" in finding.measured


def test_work_that_is_not_seen_elsewhere_fails_the_wrong_stream(fake, monkeypatch):
    monkeypatch.setattr(on_gpu, "outstanding", lambda device, run, times: 1e-6)
    assert asked(fake, "wrong stream").state == FAILED


def test_launches_that_wait_fail_naive_timing(fake, monkeypatch):
    """Launches wait as under CUDA_LAUNCH_BLOCKING=1. The kernel's time is a median here: on a CPU some runs stall."""
    lasted = []
    run, seconds = on_gpu.Spin.run, on_gpu.Spin.seconds

    def waits(self):
        run(self)
        fake.stream.synchronize()
        lasted.append(seconds.fget(self))

    monkeypatch.setattr(on_gpu.Spin, "run", waits)
    monkeypatch.setattr(on_gpu.Spin, "seconds", property(lambda self: median(lasted[-20:])))
    assert asked(fake, "naive timing").state == FAILED
    assert len(lasted) >= 20
