"""The watched process of `cudalab profile` on PyCUDA: kernels are made ready, marked and run where ncu would look."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cudalab.engine import plan
from cudalab.engine.groups import Work
from cudalab.tools.profile import child, events
from cudalab.tools.profile.events import KERNEL, Event, Recording


@pytest.fixture
def said(monkeypatch):
    """The child's answers without PyTorch, which does not know this device."""
    monkeypatch.setattr(child, "torch_missing", lambda device: None)
    monkeypatch.setattr(child, "_let_torch_use", lambda operands: None)
    answers = []
    return SimpleNamespace(answers=answers, say=answers.append)


def request(**more):
    (group,) = plan.groups(("gelu",), "1000", "")
    return child.Request(Work.on(group, (), False), "cuda", ("pycuda",), (), 0, 2, **more)


def test_each_entry_is_recorded(said, monkeypatch):
    runs = []

    def record(run, synchronize, cuda, times=1):
        for _ in range(times):
            run()
        synchronize()
        runs.append((cuda, times))
        return Recording([Event("gelu", KERNEL, 0, 1000)] * times, times, cuda)

    monkeypatch.setattr(events, "record", record)
    child._profiled(request(), said.say)
    assert said.answers[0].device == "cuda"
    rows = [answer.row for answer in said.answers if answer.row]
    assert [(row.label, row.status, row.counts["kernels"]) for row in rows] == [
        ("pycuda:gelu_scalar", "ok", 1), ("pycuda:gelu_full", "ok", 1), ("pycuda:gelu_vec", "ok", 1)
    ]  # fmt: skip
    assert runs == [(True, 2)] * 3


def test_for_ncu_a_mark_stands_before_each_entry(said, monkeypatch):
    import pycuda.driver as driver

    done = []
    monkeypatch.setattr(driver, "start_profiler", lambda: done.append("start"))
    monkeypatch.setattr(driver, "stop_profiler", lambda: done.append("stop"))
    mark = child._mark

    def marking(stream):
        launch = mark(stream)

        def marked():
            launch()
            done.append("mark")

        return marked

    monkeypatch.setattr(child, "_mark", marking)
    child._profiled(request(counters=True), said.say)
    assert done == ["start", "mark", "mark", "mark", "stop"]
    assert [a.row.label for a in said.answers if a.row] == ["pycuda:gelu_scalar", "pycuda:gelu_full", "pycuda:gelu_vec"]


def test_the_driver_has_a_profiler_to_start(said):
    child._profiled(request(counters=True), said.say)
    assert not [answer.error for answer in said.answers if answer.error]
