"""Loads on the CPU stand-in: what is enqueued, what is timed of it, and what an injected NVML counts meanwhile."""

from __future__ import annotations

from statistics import median
from time import perf_counter
from types import SimpleNamespace

import pytest
from cpu_rows import rows

from cudalab.engine import plan
from cudalab.results import record
from cudalab.study import found
from cudalab.study.lab import Lab
from cudalab.study.load import SAMPLES, Load
from cudalab.timing import energy, sustained
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


WATTS = 300.0


def nvml(why=""):
    """A card that counts energy in steps of 1 ms. Without a counter: why."""
    return SimpleNamespace(
        missing=why, no_energy=lambda: why, energy=lambda: WATTS * (perf_counter() // 1e-3) * 1e-3,
        under_load=lambda: {} if why else {"sm_hz": 1.755e9, "power_w": WATTS, "temperature_c": 50.0},
        held_down=list, condition=dict, why_untold=lambda *names: why,
    )  # fmt: skip


def short(monkeypatch):
    """Make windows and rests short."""
    for module, names in (
        (energy, ("WINDOW", "LEAD", "REST", "IDLE", "BUDGET")),
        (sustained, ("REST", "SPAN", "READ", "BUDGET")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, 0.01)
    monkeypatch.setattr(sustained, "LIMIT", 0.1)
    monkeypatch.setattr("cudalab.timing.load.CHUNK", 1e-4)
    monkeypatch.setattr("cudalab.timing.load.BEAT", 0.0)
    energy._idle.clear()


def loaded(fake, monkeypatch, nvml, told=lambda step: None, **more):
    """The row of an entry that was measured for energy and under load; `told` gets the steps."""
    short(monkeypatch)
    monkeypatch.setattr(fake, "nvml", nvml)
    (group,) = plan.groups(["plus_one"], "1000", "")
    more |= {"modes": ("launch", "energy", "sustained"), "progress": told, "omit": ("copy",)}
    (case,) = rows(fake, group, "pycuda:plus_one_scalar", **more)
    return case


def test_energy_and_sustained_times_of_verified_runs(fake, monkeypatch):
    steps = []
    case = loaded(fake, monkeypatch, nvml(), steps.append)
    assert case.status == record.OK, case.reason
    assert set(case.times) == {"cold", "hot", "call", "energy", "burst", "sustained"}, case.notes
    assert all(len(case.times[kind]) >= 3 for kind in record.LOADED)
    assert case.quantities["energy_w"] == pytest.approx(WATTS, rel=0.3)  # steps of 1 ms in windows of 10
    assert case.quantities["sustained_sm_hz"] == case.quantities["burst_sm_hz"] == 1.755e9
    assert case.quantities["sustained_w"] == WATTS
    assert {"idle_w", "sustained_load_s"} < set(case.quantities)
    for kind in record.LOADED:  # a sample of seconds is no silence: a step is told again while it lasts
        assert sum(step.phase == f"timing, {kind}" for step in steps) > 2 * len(case.times[kind])


def test_without_nvml_all_but_the_energy_is_measured(fake, monkeypatch):
    case = loaded(fake, monkeypatch, nvml("nvidia-ml-py is not installed"))
    assert set(case.times) == {"cold", "hot", "call", "burst", "sustained"}
    assert "no energy: nvidia-ml-py is not installed" in case.notes
    assert sum("nor the power is seen: nvidia-ml-py is not installed" in note for note in case.notes) == 1
    assert set(case.quantities) == {"sustained_load_s"}


def test_a_variant_that_has_ended_a_worker_under_load_keeps_its_other_times(fake, monkeypatch):
    case = loaded(fake, monkeypatch, nvml(), unloaded={"pycuda:plus_one_scalar": "the worker has died"})
    assert set(case.times) == {"cold", "hot", "call"}
    assert [note for note in case.notes if note.startswith("no ")] == [
        "no energy: the worker has died", "no sustained: the worker has died"
    ]  # fmt: skip


def test_a_study_has_the_energy_of_its_runs_or_a_note(fake, monkeypatch):
    lab, notes = Lab(fake, found.Workload(found.study("clocks"), "tiny"), 0, lambda phase: None), list[str]()
    spin = Spin(fake, CYCLES)
    short(monkeypatch)
    monkeypatch.setattr(fake, "nvml", nvml("nvidia-ml-py is not installed"))
    assert Load(lab, spin.run).energy(notes) is None and notes == ["no energy: nvidia-ml-py is not installed"]
    monkeypatch.setattr(fake, "nvml", nvml())
    clock = Load(lab, spin.run).energy(notes)
    (joules,) = clock.sample()
    assert joules > 0.9 * WATTS * CYCLES * 1e-9  # the stand-in's clock counts nanoseconds
    assert clock.quantities()["energy_w"] > 0


def test_a_result_that_a_load_leaves_wrong_is_wrong(fake, monkeypatch):
    loads = []
    monkeypatch.setattr(energy.Load, "stop", lambda load: spoil(fake) if load in loads else None)
    settle = sustained.settle
    monkeypatch.setattr(
        sustained, "settle", lambda read, advance: loads.append(advance.__self__) or settle(read, advance)
    )
    case = loaded(fake, monkeypatch, nvml())  # after its energy was measured
    assert (case.status, case.times, case.quantities) == (record.WRONG, {}, {})


def spoil(fake):
    """Change an input, as a stray write does, once all runs have ended."""
    fake.stream.synchronize()
    (array,) = fake._placed_operands.inputs.values()
    fake._driver.memset_d8(array.ptr, 7, array.nbytes)
