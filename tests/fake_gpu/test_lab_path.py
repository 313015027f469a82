"""The lab's own GPU code (placing, launching, guarding, timing) with unmodified PyCUDA on the CPU stand-in."""

from __future__ import annotations

import ctypes
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cudalab import backends, timing
from cudalab.base.errors import LaunchError
from cudalab.device import cuda, driver
from cudalab.device.arrays import DeviceArray
from cudalab.device.open import open_gpu
from cudalab.device.operands import Bound
from cudalab.engine import plan
from cudalab.engine.group import cases as cases_of
from cudalab.engine.job import Job
from cudalab.results import record
from cudalab.spec import find
from cudalab.spec.dtype import dtype
from cudalab.timing.gpu import graph_clock, rotating, timer_of
from cudalab.timing.graph import Graph

ONLY = ("pycuda", "pycuda_elementwise")


@pytest.fixture(scope="module")
def fake():
    device = open_gpu(0, cuda.missing())
    yield device
    device.close()


def rows(fake, group, modes=()):
    return cases_of(Job(fake, plan.Selection(only=ONLY), modes, 0, 0.1, lambda text: None), group)


@pytest.mark.parametrize("group", plan.checks([], "all"), ids=str)
def test_parity(fake, group):
    for case in rows(fake, group):
        assert case.status == record.OK, f"{case.label}: {case.reason}"


def test_times_of_all_kinds_are_taken(fake):
    (group,) = plan.groups(["plus_one"], "1000", "")
    cases = {c.label: c for c in rows(fake, group, ("launch", "graph"))}
    assert set(cases) == {"pycuda:plus_one_scalar", "pycuda:plus_one_vec", "pycuda_elementwise", "copy"}
    for case in cases.values():
        assert case.status in (record.OK, record.CEILING), case.reason
        assert set(case.times) == {"cold", "hot", "call", "graph", "graph_cold"}, case.notes
        assert all(case.median(kind) > 0 for kind in case.times)


def test_calibration_measures_nothing_an_empty_kernel_and_an_empty_node(fake):
    found = timing.calibrate(fake, ("launch", "graph"))
    assert {name: len(samples) for name, samples in found.items()} == {
        "empty event pair": 100,
        "empty kernel": 100,
        "empty graph node": 50,
    }
    assert "empty graph node" not in timing.calibrate(fake, ("launch",))


@pytest.fixture
def placed(fake):
    """plus_one on 1,000 numbers, ready to run."""
    (group,) = plan.groups(["plus_one"], "1000", "")
    operands = fake.place(group.kernel, group.dtype, group.arrays(0))
    yield backends.by_name()["pycuda"].bind(group.kernel, "plus_one_vec", group.dtype, operands)
    fake.release()


def test_a_graph_runs_each_bound_once(fake, placed):
    want = fake.fetch(placed.output()) if placed.run() is None else None
    graph = Graph([placed] * 3, fake.stream)
    assert (graph.runs, graph.kernels, len(graph.works)) == (3, 3, 1)
    fake.poison(placed.output())
    assert not np.array_equal(fake.fetch(placed.output()), want)
    graph.replay()
    np.testing.assert_array_equal(fake.fetch(placed.output()), want)
    graph.close()
    graph.close()


def test_a_cold_graph_rotates_over_copies_of_the_operands(fake, placed):
    bounds = rotating(fake, placed)
    footprint = 2 * fake.fetch(placed.output()).nbytes
    memory = {bound.output().ptr for bound in bounds}
    assert len(memory) == len(bounds)
    assert len(memory) * footprint >= 5 * fake.details()["l2_bytes"]
    clock = graph_clock(fake, bounds, flush=True)
    placed.run()
    want = fake.fetch(placed.output())
    fake.poison(bounds[-1].output())
    clock.work.run()
    np.testing.assert_array_equal(fake.fetch(bounds[-1].output()), want)


def test_what_does_not_fit_into_a_graph_is_refused(fake, placed):
    def waits():
        placed.run()
        fake.stream.synchronize()

    for bound, message in (
        (Bound(lambda: None, lambda: None), "4 runs were captured as 0 kernels"),
        (replace(placed, run=waits), "cannot be captured: LogicError: cuStreamSynchronize failed"),
    ):
        with pytest.raises(LaunchError, match=message):
            Graph([bound] * 4, fake.stream)
    other = Bound(timer_of(fake).empty, placed.output)
    with pytest.raises(LaunchError, match="a replay left 1 of 1 outputs unwritten"):
        graph_clock(fake, [other] * 3, flush=False)


def test_release_ends_the_graphs_that_stand_on_the_arrays(fake, placed, monkeypatch):
    ended = []
    real = Graph.close
    monkeypatch.setattr(Graph, "close", lambda graph: (ended.append(graph), real(graph)))
    graph_clock(fake, [placed] * 2, flush=False)
    assert not ended
    fake.release()
    assert len(ended) == 1
    fake.release()
    assert len(ended) == 1


def test_what_l2_was_told_to_keep_is_released_before_each_cold_sample(fake):
    resets = ctypes.c_uint.in_dll(driver.libcuda(), "l2_resets")
    before = resets.value
    assert len(timer_of(fake).cold(timer_of(fake).empty, 5, True)) == 5
    assert resets.value - before == 5
    timer_of(fake).hot(timer_of(fake).empty, 5, True)
    assert resets.value - before == 5


def test_a_write_beyond_the_end_is_wrong(fake, tmp_path):
    kernel = find.kernel("plus_one")
    (tmp_path / "plus_one.py").write_text(Path(kernel.file).read_text())
    (tmp_path / "plus_one.cu").write_text(kernel.cu.read_text().replace("if (i < n)", "if (i <= n)"))
    shutil.copytree(kernel.cu.parent / "common", tmp_path / "common")
    (group,) = plan.groups([str(tmp_path / "plus_one.py")], "1000", "")
    case = next(c for c in rows(fake, group) if c.label == "pycuda:plus_one_scalar")
    assert case.status == record.WRONG
    assert "bytes after 'y'" in case.reason


def test_a_changed_input_is_wrong(fake):
    kernel = find.kernel("plus_one")
    operands = fake.place(kernel, dtype("float32"), kernel.make((100,), dtype("float32")))
    assert fake.tampered(operands) is None
    fake.poison(DeviceArray((1,), np.dtype(np.float32), operands.inputs["x"].ptr))
    assert fake.tampered(operands) == "changed its input 'x'"
    fake.release()


def test_a_file_that_does_not_compile_costs_its_rows_only(fake, tmp_path):
    kernel = find.kernel("plus_one")
    (tmp_path / "broken.py").write_text(Path(kernel.file).read_text().replace("plus_one = Kernel", "broken = Kernel"))
    (tmp_path / "broken.cu").write_text(kernel.cu.read_text().replace("x[i] + 1;", "x[i] + one;"))
    shutil.copytree(kernel.cu.parent / "common", tmp_path / "common")
    (group,) = plan.groups([str(tmp_path / "broken.py")], "1000", "")
    for case in rows(fake, group):
        assert case.status == record.ERROR
        assert "broken.cu:10" in case.reason
        assert "one" in case.reason


def test_a_driver_whose_device_says_no_gpu_is_not_used(monkeypatch):
    name = (ctypes.c_char * 64).in_dll(driver.libcuda(), "device_name")
    monkeypatch.setattr(name, "value", b"a stub (no GPU)")
    assert driver.missing() == "libcuda is a stand-in: a stub (no GPU)"


def test_gpuarray_calls(fake):
    import pycuda.gpuarray as gpuarray

    from cudalab.kernels.gelu import gelu

    x = np.linspace(-4, 4, 1001, dtype=np.float32)
    on_device = gpuarray.to_gpu(x)
    y = gelu(on_device)
    assert isinstance(y, gpuarray.GPUArray)
    np.testing.assert_allclose(y.get(), gelu(x), rtol=1e-6)
    out = gpuarray.empty_like(on_device)
    assert gelu(on_device, out=out) is out
    np.testing.assert_array_equal(out.get(), y.get())
