"""The load of other programs: without the lab's own, without what was before, in proportion to a quota."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cudalab.base import load
from cudalab.base.load import CORES, OTHERS, Watch


class Machine:
    """A machine whose clock, load average and accounts are set by hand."""

    def __init__(self, monkeypatch):
        self.now, self.average, self.used, self.busy, self.group, self.quota = 0.0, 0.0, 0.0, 0.0, None, 64.0
        monkeypatch.setattr(load, "monotonic", lambda: self.now)
        monkeypatch.setattr(load, "_average", lambda: self.average)
        monkeypatch.setattr(load, "descendants", lambda: self.used)
        monkeypatch.setattr(load, "_busy", lambda: self.busy)
        monkeypatch.setattr(load, "_used_by_group", lambda: self.group)
        monkeypatch.setattr(load, "cores", lambda: min(self.quota, 2.0))
        monkeypatch.setattr(load.os, "cpu_count", lambda: 2)

    def runs(self, seconds, load_, used=0.0):
        """`load_` programs run for so long; the lab uses so many CPU seconds."""
        for _ in range(int(seconds)):
            self.average += (load_ - self.average) / load.DECAY
        self.now += seconds
        self.used += used
        self.busy += seconds * min(load_, 2)


@pytest.fixture
def machine(monkeypatch):
    return Machine(monkeypatch)


def mean(watch):
    seconds = watch.seconds()
    return 2 * seconds[OTHERS] / seconds[CORES]


@pytest.mark.parametrize("before", [0.0, 6.0])
def test_load_before_the_run_and_of_the_lab_itself_is_left_out(machine, before):
    machine.average = before  # such as pip's, which has ended
    watch = Watch()
    machine.runs(30, 1, used=30)
    assert mean(watch) == pytest.approx(0, abs=0.15)
    machine.runs(30, 3, used=40)  # two threads of the lab and one program of somebody else
    assert watch.seconds()[OTHERS] == pytest.approx(30, rel=0.2)


def test_a_burst_of_the_labs_threads_is_not_load_of_others(machine):
    """The load average looks every five seconds: a short run may be seen with all its threads at work."""
    watch = Watch()
    machine.runs(10, 1.2, used=12)
    machine.average += 0.5
    assert mean(watch) < 0.1


def test_other_programs_count_in_full(machine):
    watch = Watch()
    for _ in range(4):
        machine.runs(20, 9, used=20 * 2 / 9)  # the lab has one of nine
        watch.seconds()
    assert mean(watch) == pytest.approx(8, rel=0.1)
    others, cores = watch.means()  # since the creation
    assert (others, cores) == pytest.approx((mean(watch), 2), rel=0.01)
    assert load.is_busy(others, cores) and not load.is_busy(0.4, 2.0)


def test_under_a_quota_the_load_is_that_of_the_group(machine):
    machine.quota, machine.group = 1.0, 0.0
    watch = Watch()
    machine.runs(60, 1, used=12)
    machine.group = 48.0
    seconds = watch.seconds()
    assert seconds[CORES] == 60
    assert seconds[OTHERS] == pytest.approx(36)  # of the group, without the lab's


@pytest.mark.process
def test_what_children_use_is_the_labs_own():
    before = load.descendants()
    busy = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    subprocess.run([sys.executable, "-c", busy], check=True)
    assert load.descendants() - before >= 0.25


@pytest.mark.parametrize(("files", "cores"), [
    ({"pod/cpu.max": "150000 100000"}, 1.5), ({"pod/cpu.max": "max 100000"}, None),
    ({"cpu.max": "50000 100000", "pod/cpu.max": "max 100000"}, 0.5), ({}, None),
    ({"cpu/pod/cpu.cfs_quota_us": "50000\n", "cpu/pod/cpu.cfs_period_us": "100000\n"}, 0.5),  # of the older groups
])  # fmt: skip
def test_quotas_of_control_groups(tmp_path, monkeypatch, files, cores):
    (tmp_path / "self").mkdir()
    older = any("cfs" in name for name in files)
    (tmp_path / "self" / "cgroup").write_text("2:cpu,cpuacct:/pod\n1:memory:/pod\n" if older else "0::/pod\n")
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(load, "PROC", tmp_path)
    monkeypatch.setattr(load, "CGROUP", tmp_path)
    assert load.cores() == (cores or len(load.os.sched_getaffinity(0)))


def test_what_proc_tells(tmp_path, monkeypatch):
    """A listing of it has processes that are gone a moment later; a file of one may be empty, or its folder gone."""
    monkeypatch.setattr(load, "PROC", tmp_path)
    assert load._busy() == 0
    for name, text in ((str(os.getpid()), "1 (a (b) c) S 0 " + "0 " * 9 + "100 0 0 0"), ("7", ""), ("8", None)):
        (tmp_path / name).mkdir()
        if text is not None:
            (tmp_path / name / "stat").write_text(text)
    (tmp_path / "self").symlink_to("gone")
    (tmp_path / "stat").write_text("cpu  100 20 30 9999 999 4 6 77 100 20\ncpu0 1 1 1 1\n")
    assert load._busy() == 160 / load.TICKS  # without idle and waiting
    assert load.descendants() == 100 / load.TICKS
