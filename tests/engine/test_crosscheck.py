"""Another clock beside the lab's, NVBench or CUPTI: what it wrote, failures; on a GPU, agreement with our times."""

from __future__ import annotations

import json
from functools import cache

import pytest
from commands import refused

from cudalab.base import advice, stats
from cudalab.base.errors import LaunchError, Unavailable
from cudalab.device.activity import COPY, KERNEL, LAUNCH, OPERATOR, Event
from cudalab.engine import cross_check, plan
from cudalab.engine.cross_check import cupti, nvbench, ready
from cudalab.engine.cross_check.nvbench import BATCH, COLD, WALL
from cudalab.engine.cross_check.ready import Found, Request
from cudalab.engine.job import Job
from cudalab.engine.kernel_round import cases as cases_of
from cudalab.engine.rows import row
from cudalab.engine.selection import Selection
from cudalab.timing.events import MARKS
from cudalab.timing.gpu import NOT_HELD


def benchmark(name, skipped=False, **values):
    """One benchmark of NVBench's file; the names of `values` stand for the ends of its tags."""
    data = {f"nv/{tag.replace('_', '/')}": value for tag, value in values.items()}
    summaries = [
        {"tag": tag, "name": "x", "data": [{"name": "value", "type": "float64", "value": str(value)}]}
        for tag, value in data.items()
    ]
    return {"name": name, "states": [{"name": "Device=0", "is_skipped": skipped, "summaries": summaries or None}]}


@cache
def group():
    return plan.groups(["plus_one"], "1000", "")[0]


TIMED = ("copy", "pycuda:plus_one_vec", "torch_eager", "torch_native")


def asked(*labels, seed=0, index=0):
    return Request(group().file, "1000", (1000,), "float32", list(labels), seed, index)


def timed(*labels):
    cases = [row(group(), label) for label in labels]
    for case in cases:
        case.times = {"cold": [[1e-6]]}
    return cases


def test_times_are_found_by_their_tags():
    benchmarks = [
        benchmark("all", cold_time_gpu_mean=9, cold_time_gpu_median=2.5e-6, batch_time_gpu_mean=2e-6),
        benchmark("no batch", cold_time_gpu_median=3e-6, cold_time_cpu_median=9),
        benchmark("no cold", batch_time_gpu_mean=2e-6),
        benchmark("skipped", skipped=True, cold_time_gpu_median=1e-6),
        benchmark("nothing"),
    ]
    found = nvbench.parsed(json.dumps({"benchmarks": benchmarks}).encode())
    assert found == {"all": {COLD: 2.5e-6, BATCH: 2e-6}, "no batch": {COLD: 3e-6}}


def gone(name):
    raise ModuleNotFoundError(name)


@pytest.mark.parametrize("find", [lambda name: None, gone])
def test_without_nvbench_it_says_what_to_type(monkeypatch, find):
    monkeypatch.setattr(nvbench.importlib.util, "find_spec", find)
    assert nvbench.missing() == f"NVBench is not installed; {advice.extra('nvbench')}"
    with pytest.raises(Unavailable, match="pip install"):
        nvbench.times(asked("copy"))


def test_without_pytorch_cupti_says_what_to_type(monkeypatch):
    monkeypatch.setattr(cupti, "torch_missing", lambda device: "PyTorch is not installed; pip install it")
    with pytest.raises(Unavailable, match="PyTorch's profiler: PyTorch is not installed; pip install"):
        cross_check.chosen("cupti")


@pytest.mark.parametrize("tool", list(cross_check.TOOLS))
def test_only_rows_with_times_are_asked_for(monkeypatch, tool):
    cases = [*timed(*TIMED), row(group(), "triton")]

    def found(request):
        assert request == asked(*TIMED, seed=7, index=1)
        times = {COLD: 2e-6, WALL: 1.0}
        return {"copy": Found(times), "pycuda:plus_one_vec": Found(times), "torch_native": Found(why="records lost")}

    monkeypatch.setattr(cross_check.TOOLS[tool], "times", found)
    cross_check.add(tool, cases, group(), 7, "cuda:1")
    assert [case.cross.get(COLD) for case in cases] == [2e-6, 2e-6, None, None, None]
    gave = f"no cross-check: {cross_check.NAMES[tool]} reported no time"
    assert [case.notes for case in cases] == [[], [], [gave], ["no cross-check: records lost"], []]


def test_a_failure_is_a_note_and_costs_no_time(monkeypatch):
    def fails(request):
        raise LaunchError("NVBench ended with exit code 1: oh")

    cases = [row(group(), "copy"), *timed("torch_eager")]
    monkeypatch.setattr(nvbench, "times", fails)
    cross_check.add("nvbench", cases, group(), 0, "auto")
    assert cases[1].notes == ["no cross-check: NVBench ended with exit code 1: oh"]
    assert cases[1].times
    cross_check.add("nvbench", cases[:1], group(), 0, "auto")  # nothing is started for rows without times
    assert cases[0].notes == []


@pytest.mark.process
def test_a_process_that_fails_is_quoted():
    with pytest.raises(LaunchError, match=r"CUPTI's process ended with exit code 1: .*(GPU|CUDA|Unavailable)"):
        ready.asked("CUPTI's process", "cudalab.engine.cross_check.cupti.main", asked("copy"), dict, 60)


@pytest.mark.process
@pytest.mark.parametrize(
    ("tool", "missing", "said"),
    [
        ("nvbnch", "", "did you mean 'nvbench'"),
        ("cupt", "", "did you mean 'cupti'"),
        *[(tool, "it is not installed", "it is not installed") for tool in cross_check.TOOLS],
        *[(tool, "", "a cross-check needs a GPU") for tool in cross_check.TOOLS],
    ],
)
def test_the_option_is_refused_before_anything_is_measured(monkeypatch, tool, missing, said):
    for module in cross_check.TOOLS.values():
        monkeypatch.setattr(module, "missing", lambda: missing)
    assert said in refused("bench", "plus_one", "--sizes", "8", "--device", "cpu", "--cross-check", tool)


# ---- CUPTI's records -------------------------------------------------------------------------------------------------


def on_gpu(name, start, end, kind=KERNEL):
    return Event(name, kind, start, end)


def recorded(*runs, marks=True):
    """Records of runs, each a list of (start, end) in ns, with the lab's flush and marks around them."""
    before, after = MARKS
    events, now = [Event("aten::add", OPERATOR, 0, 10**9), Event("cuLaunchKernel", LAUNCH, 5, 6)], 1000
    for run in runs:
        events += [on_gpu("Memset (Device)", now, now + 10, COPY), on_gpu("sweep", now + 10, now + 90)]
        events += [on_gpu(before, now + 91, now + 92)] if marks else []
        events += [on_gpu("work", now + 100 + a, now + 100 + b) for a, b in run]
        events += [on_gpu(after, now + 9001, now + 9002)] if marks else []
        now += 10_000
    return events[::-1]  # CUPTI gives them in no order


@pytest.mark.parametrize(
    ("runs", "more", "seconds"),
    [
        ([[(0, 50)], [(7, 40)], [(0, 30)]], [], [50e-9, 33e-9, 30e-9]),
        ([[(0, 50), (60, 100), (20, 70)], [(5, 10), (10, 20), (30, 205)]], [], [100e-9, 200e-9]),
        ([[(0, 50)]], [on_gpu("Memcpy DtoD", 1160, 1200, COPY)], [100e-9]),
    ],
)
def test_a_run_lasts_from_its_first_kernel_or_copy_to_the_end_of_its_last(runs, more, seconds):
    assert cupti.spans([*recorded(*runs), *more], len(runs)) == pytest.approx(seconds)


def test_a_run_that_cannot_be_held_has_no_second_time(monkeypatch):
    def clocks(device, work, modes, notes):
        notes.append(NOT_HELD)
        return {"cold": None}

    monkeypatch.setattr(cupti.timing, "clocks", clocks)
    found = cupti.recorded(None, {"torch_eager": "waits"})
    assert found == {"torch_eager": Found(why=f"it {NOT_HELD}")}


@pytest.mark.parametrize(
    ("events", "runs", "said"),
    [
        (recorded([(0, 5), (6, 9)], [(0, 5)]), 2, "between 1 and 2 kernels per run"),
        (recorded([(0, 5)], []), 2, "between 0 and 1 kernels per run"),
        (recorded([], []), 2, "no kernel per run"),
        (recorded([(0, 5)]), 2, "2 of 4 marks around 2 runs"),
        (recorded([(0, 5)], [(0, 5)], marks=False), 2, "0 of 4 marks"),
        ([], 3, "0 of 6 marks"),
    ],
)
def test_lost_records_are_an_error(events, runs, said):
    with pytest.raises(LaunchError, match=said) as raised:
        cupti.spans(events, runs)
    assert cupti.ISSUE in str(raised.value)


def test_a_variant_that_loses_records_costs_the_others_nothing(monkeypatch):
    def cold(device, work):
        if work == "lossy":
            raise LaunchError("records were lost")
        return {cupti.COLD: 2e-6, cupti.EVENTS: 3e-6}

    monkeypatch.setattr(cupti, "_cold", cold)
    monkeypatch.setattr(cupti, "_before", lambda device, work: {cupti.BEFORE: 4e-6})
    found = cupti.recorded(None, {"torch_eager": "lossy", "copy": "whole"})
    assert found["torch_eager"] == Found(why="records were lost")
    assert found["copy"].times.pop(cupti.WALL) >= 0
    assert found["copy"].times == {cupti.COLD: 2e-6, cupti.EVENTS: 3e-6, cupti.BEFORE: 4e-6}


def on_both_clocks(gpu, tool, *only):
    """The rows of kernels long enough (33 us) that NVBench's batch, which is not held, does not wait for the host."""
    (large,) = plan.groups(["plus_one"], "2^24", "")
    cases = cases_of(Job(gpu, Selection(only=only), ("launch",), 0, 0.3, lambda step: None), large)
    cross_check.add(tool, cases, large, 0, f"cuda:{gpu.index}")
    assert {case.label for case in cases} == {*only, "copy"}
    return cases


@pytest.mark.wall
@pytest.mark.gpu
def test_cupti_and_the_lab_agree_on_the_gpu(gpu):
    for case in on_both_clocks(gpu, "cupti", "pycuda:plus_one_vec", "torch_native"):
        assert set(case.cross) == {cupti.COLD, cupti.EVENTS, cupti.BEFORE, cupti.WALL}, case.notes
        start = case.cross[cupti.EVENTS] - case.cross[cupti.COLD]  # of a pair of events around a kernel
        assert 0 <= start < 4e-6, case.label
        assert case.cross[cupti.EVENTS] == pytest.approx(stats.median(case.times["cold"]), rel=0.05), case.label


@pytest.mark.wall
@pytest.mark.gpu
def test_nvbench_and_the_lab_agree_on_the_gpu(gpu):
    if reason := nvbench.missing():
        pytest.skip(reason)
    for case in on_both_clocks(gpu, "nvbench", "pycuda:plus_one_vec"):
        assert set(case.cross) == {COLD, BATCH, WALL}, case.notes
        # Wider than what METHOD.md claims: this is to find the wrong stream, or the wrong work.
        assert case.cross[COLD] == pytest.approx(stats.median(case.times["cold"]), rel=0.25)
        assert case.cross[BATCH] == pytest.approx(stats.median(case.times["hot"]), rel=0.5)
