"""The lab's own GPU code (placing, launching, guarding, timing) with unmodified PyCUDA on the CPU stand-in."""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path

import numpy as np
import pytest

from cudalab.device import cuda
from cudalab.device.interop import DeviceArray
from cudalab.engine import plan
from cudalab.engine.job import Job
from cudalab.results import record
from cudalab.spec import find
from cudalab.spec.dtype import dtype

ONLY = ("pycuda", "pycuda_elementwise")


@pytest.fixture(scope="module")
def fake():
    device = cuda.open_gpu(0, cuda.missing())
    yield device
    device.close()


def rows(fake, group, modes=()):
    return Job(fake, plan.Selection(only=ONLY), modes, 0, 0.1, lambda text: None).cases(group)


@pytest.mark.parametrize("group", plan.checks([], "all"), ids=str)
def test_parity(fake, group):
    for case in rows(fake, group):
        assert case.status == record.OK, f"{case.label}: {case.reason}"


def test_times_are_taken_and_graphs_say_why_not(fake):
    (group,) = plan.groups(["plus_one"], "1000", "")
    cases = {c.label: c for c in rows(fake, group, ("launch", "graph"))}
    assert set(cases) == {"pycuda:plus_one_scalar", "pycuda:plus_one_vec", "pycuda_elementwise", "copy"}
    for case in cases.values():
        assert case.status in (record.OK, record.CEILING), case.reason
        assert all(case.median(kind) > 0 for kind in ("cold", "hot", "call"))
        assert any("no graph" in note for note in case.notes)


def test_what_l2_was_told_to_keep_is_released_before_each_cold_sample(fake):
    resets = ctypes.c_uint.in_dll(ctypes.CDLL("libcuda.so.1"), "l2_resets")
    before = resets.value
    assert len(fake._timer.cold(fake._timer.empty, 5, True)) == 5
    assert resets.value - before == 5
    fake._timer.hot(fake._timer.empty, 5, True)
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


def test_the_stand_in_is_no_device_of_bench(monkeypatch):
    monkeypatch.delenv("CUDALAB_FAKE_GPU")
    cuda.missing.cache_clear()
    assert "stand-in" in cuda.missing()
    cuda.missing.cache_clear()


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
