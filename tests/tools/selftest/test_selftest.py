"""The selftest runs on this machine, and each of its checks fails when its subject is wrong."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from itertools import cycle

import numpy as np
import pytest
from commands import invoke

from cudalab import timing
from cudalab.base import stats
from cudalab.base.errors import InputError, Unavailable
from cudalab.device.cpu import Cpu
from cudalab.device.operands import Bound
from cudalab.timing import cpu as wall_clock
from cudalab.tools import selftest
from cudalab.tools.selftest import FAILED, PASSED, SKIPPED, Finding, Report, comparison, cpu
from cudalab.tools.selftest.check import Check, Outcome
from cudalab.tools.selftest.comparison import COARSEST, Comparison, by_chance, deviation

NOTHING = Bound(lambda: None, lambda: None)


@pytest.fixture(autouse=True)
def _own_clocks(monkeypatch):
    """Devices of these tests that have clocks are timed by them."""
    real = timing.clocks

    def clocks(device, bound, modes, notes):
        own = getattr(device, "clocks", partial(real, device))
        return own(bound, modes, notes)

    monkeypatch.setattr(timing, "clocks", clocks)


class Lying(Cpu):
    """A CPU whose clocks show the true times multiplied by `factor`."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def clocks(self, bound, modes, notes):
        def lie(clock):
            return lambda: [t * self.factor for t in clock.sample()]

        return {k: replace(c, sample=lie(c)) for k, c in wall_clock.clocks(self, bound, modes, notes).items()}


class Scripted(Cpu):
    """A CPU whose clocks show given seconds, clock by clock, with a little noise."""

    def __init__(self, *seconds, noise=1e-4):
        super().__init__()
        self.seconds, self.rng, self.noise = cycle(seconds), np.random.default_rng(0), noise

    def clocks(self, bound, modes, notes):
        (clock,) = wall_clock.clocks(self, bound, ("launch",), notes).values()
        seconds = next(self.seconds)
        return {"wall": replace(clock, sample=lambda: list(seconds * self.rng.lognormal(0, self.noise, 5)))}


def asked(device, name, seconds=0.1):
    """The finding of one check on a device that may be wrong."""
    checks = selftest._checks(device, Comparison(device, seconds), "")
    return selftest._asked(next(check for check in checks if check.name == name))


@pytest.mark.sweep
def test_every_check_says_something_here():
    shown = []
    report = selftest.selftest("cpu", 0.3, shown.append)
    assert shown == report.findings
    states = {f.name: f.state for f in report.findings}
    assert states["known length, long"] in (PASSED, FAILED)  # by other work of the CPU
    assert {n for n, s in states.items() if s == SKIPPED} == set(cpu.GPU_ONLY)
    assert {"A/A small", "A/A large", "smallest difference"} < set(states)
    for finding in report.findings:
        assert all((finding.measured, finding.expected, finding.why))
        if finding.state == SKIPPED:
            assert "the CPU was asked for" in finding.measured
    assert report.smallest > 0
    assert report.fit == (FAILED not in states.values())


def test_the_command_prints_the_findings_and_its_code_is_the_verdict(monkeypatch):
    for state, code in ((PASSED, 0), (FAILED, 1)):
        finding = Finding("known length", state, "1 µs for 2 µs", "2 µs", "it must")

        def found(device, seconds, show, begin, finding=finding):
            assert (device, seconds) == ("cpu", 3.0)
            show(finding)
            return Report("a CPU", [finding], 0.004)

        monkeypatch.setattr(selftest, "selftest", found)
        run = invoke("selftest", "--device", "cpu", "--seconds", "3")
        assert run.exit_code == code
        assert run.output.startswith(f"{state}   known length: 1 µs for 2 µs\n")
        assert ("why it matters: it must" in run.output) == (state == FAILED)
        assert ("NOT FIT" in run.output) == (state == FAILED)


@pytest.mark.parametrize(("load", "busy"), [((8.0, 2.0), True), ((0.4, 2.0), False)])
def test_a_busy_machine_is_said_before_the_verdict(monkeypatch, load, busy):
    monkeypatch.setattr(selftest, "selftest", lambda *given: Report("a CPU", [], 0.004, load))
    lines = invoke("selftest", "--device", "cpu").output.splitlines()
    assert len(lines) == 1 + busy and lines[-1].startswith("NOT FIT")
    if busy:
        assert lines[0].startswith("Machine busy: load 8 of other programs on 2 cores: the verdict is that of a busy")


def test_a_busy_machine_keeps_its_load(monkeypatch):
    monkeypatch.setattr(selftest.Watch, "means", lambda self: (3.0, 2.0))
    monkeypatch.setattr(selftest, "_checks", lambda *given: iter(()))
    assert selftest.examine(Cpu(), 0.1, print).load == (3.0, 2.0)


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="seconds is -1 s"):
        selftest.selftest("cpu", -1)


def test_a_check_that_breaks_has_failed_and_one_that_cannot_be_asked_is_skipped():
    def unavailable():
        raise Unavailable("no such bus")

    def broken():
        raise ZeroDivisionError("by nought")

    assert selftest._asked(Check("a", "", "", unavailable)).state == SKIPPED
    finding = selftest._asked(Check("a", "", "", broken))
    assert (finding.state, finding.measured) == (FAILED, "ZeroDivisionError: by nought")
    assert selftest._asked(Check("a", "", "", lambda: Outcome(False, "3"))).state == FAILED


def test_the_verdict_sentence():
    def finding(state):
        return Finding("x", state, "", "", "")

    assert not Report("d", [], None).fit
    assert not Report("d", [finding(SKIPPED)], None).fit
    assert not Report("d", [finding(PASSED), finding(FAILED)], 0.01).fit
    assert "Failed: x" in Report("d", [finding(FAILED)], 0.01).sentence()
    report = Report("d", [finding(PASSED), finding(SKIPPED)], 0.031)
    assert report.fit
    assert "can show is 3.1 %" in report.sentence()
    assert f"can show is {100 * stats.MIN_EFFECT:.1f} %" in replace(report, smallest=0.001).sentence()


@pytest.mark.parametrize("factor", [0.8, 1.2])
@pytest.mark.parametrize("name", cpu.LENGTHS)
def test_a_clock_that_lies_by_a_fifth_fails_the_known_length(factor, name):
    assert asked(Lying(factor), f"known length, {name}").state == FAILED


def test_the_worst_footprint_decides_and_a_constant_cost_cancels():
    compared = Comparison(Scripted(1e-4), 0.01)
    finding = selftest._asked(compared.check("x", lambda: NOTHING, 1))
    assert finding.state == PASSED
    assert re.match(r"\d+ SAME;", finding.measured)
    assert 0 < compared.smallest < 1e-3
    assert selftest._asked(compared.verdict()).state == PASSED
    compared = Comparison(Scripted(1e-4, 1e-4, 1e-4, 1.005e-4), 0.01)
    for name in ("good", "worse"):
        selftest._asked(compared.check(name, lambda: NOTHING, 1))
    assert compared.smallest == pytest.approx(0.005, abs=1e-3)
    assert deviation(stats.Ratio(1, 0.8, 1.1)) == pytest.approx(0.25)
    assert deviation(stats.Ratio(1, 0.99, 1.1)) == pytest.approx(0.1)
    assert cpu.known_length(Scripted(1.3e-3, 2.3e-3), 1e-3).ok
    assert not cpu.known_length(Scripted(1.3e-3, 2.4e-3), 1e-3).ok


@pytest.mark.parametrize("other", [1.1e-4, 0.9e-4])
def test_different_work_fails_the_aa_run(other):
    finding = selftest._asked(Comparison(Scripted(1e-4, other), 0).check("x", lambda: NOTHING, 1))
    assert finding.state == FAILED
    assert "FASTER" in finding.measured or "SLOWER" in finding.measured


def test_too_much_noise_fails_the_aa_run_and_the_smallest_difference(monkeypatch):
    monkeypatch.setattr(comparison, "BUDGET", 0)  # as few rounds and runs as there may be, on a fast machine too
    compared = Comparison(Scripted(1e-4, noise=10), 0)
    finding = selftest._asked(compared.check("x", lambda: NOTHING, 1))
    assert (finding.state, "UNCLEAR" in finding.measured) == (FAILED, True)
    assert compared.smallest > COARSEST
    assert selftest._asked(compared.verdict()).state == FAILED


@pytest.mark.parametrize(("unclear", "judged", "ok"), [(0, 3, True), (2, 3, True), (3, 3, False), (4, 39, True),
                                                        (9, 39, True), (10, 39, False), (20, 100, False)])  # fmt: skip
def test_unclear_comparisons_pass_only_as_chance_has_them(unclear, judged, ok):
    assert by_chance(unclear, judged) == ok


def test_a_variant_that_breaks_fails_the_aa_run():
    def breaks():
        raise RuntimeError("no luck")

    class Breaking(Cpu):
        def clocks(self, bound, modes, notes):
            return {k: replace(c, sample=breaks) for k, c in wall_clock.clocks(self, bound, modes, notes).items()}

    compared = Comparison(Breaking(), 0.01)
    finding = selftest._asked(compared.check("x", lambda: NOTHING, 1))
    assert (finding.state, "no luck" in finding.measured) == (FAILED, True)
    assert selftest._asked(compared.verdict()).measured == "no A/A run finished"
