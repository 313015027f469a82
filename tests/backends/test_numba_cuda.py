"""Numba's backend, on a stand-in for Numba that runs a kernel for one thread after the other."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import host_arrays
import numpy as np
import pytest

from cudalab.backends import numba_cuda
from cudalab.base.errors import SpecError, Unavailable
from cudalab.spec import find
from cudalab.spec.dtype import dtype

ROWS = """
from numba import cuda


@cuda.jit
def scale(x, y, by):
    i = cuda.grid(1)
    if i < x.shape[0]:
        y[i] = x[i] * by


def launch(x, y, by=2, *, stream):
    scale[x.shape[0], 1, stream](x, y, by)
"""


@pytest.fixture
def numba(monkeypatch):
    """A module like Numba's: `cuda.jit`, `cuda.grid`, streams, device arrays; it keeps the streams of launches."""
    at, streams = [0], []

    class Jitted:
        def __init__(self, function):
            self.function = function

        def __getitem__(self, launch):
            grid, block, stream = launch
            streams.append(stream)

            def run(*arrays):
                for at[0] in range(grid * block):
                    self.function(*arrays)

            return run

    module = ModuleType("numba")
    module.cuda = SimpleNamespace(
        jit=Jitted, grid=lambda ndim: at[0], external_stream=lambda handle: f"stream {handle}",
        as_cuda_array=host_arrays.seen, is_available=lambda: False,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "numba", module)
    module.streams = streams
    return module


@pytest.mark.parametrize("name", ["float32", "float16", "int32"])
def test_an_expression_becomes_a_kernel_with_a_thread_an_element(numba, name):
    kernel, kind = find.kernel("plus_one"), dtype(name)
    x, y = np.arange(600).reshape(3, 200).astype(kind.numpy), np.zeros((3, 200), kind.numpy)
    assert numba_cuda.variants(kernel) == ("",)
    bound = numba_cuda.bind(kernel, "", kind, host_arrays.operands({"x": x}, y))
    y[:] = 0
    bound.run()
    assert np.array_equal(y, x + 1)
    assert set(numba.streams) == {"stream 7"}
    other, twice = np.zeros_like(y), x * 2
    bound.again(host_arrays.operands({"x": twice}, other)).run()
    assert np.array_equal(other, twice + 1)


def test_an_empty_array_launches_nothing(numba):
    empty = np.zeros((0, 8), np.float32)
    numba_cuda.bind(find.kernel("plus_one"), "", dtype("float32"), host_arrays.operands({"x": empty}, empty)).run()
    assert not numba.streams


def test_a_file_launches_kernels_of_its_own(numba, tmp_path):
    (tmp_path / "rows.py").write_text(ROWS)
    kernel = replace(find.kernel("plus_one"), file=str(tmp_path / "twice.py"), numba="rows.py", pointwise=False)
    x, y = np.arange(6, dtype=np.float32).reshape(3, 2), np.zeros((3, 2), np.float32)
    assert numba_cuda.variants(kernel) == ("",)
    numba_cuda.bind(kernel, "", dtype("float32"), host_arrays.operands({"x": x}, y)).run()
    assert np.array_equal(y, x * 2)
    numba_cuda.bind(kernel, "", dtype("float32"), host_arrays.operands({"x": x}, y, by=np.int32(5))).run()
    assert np.array_equal(y, x * 5)
    (tmp_path / "rows.py").write_text("def start(x, y, stream):\n    pass\n")
    with pytest.raises(SpecError, match=r"rows\.py has no function 'launch'; define launch\(inputs"):
        numba_cuda.bind(kernel, "", dtype("float32"), host_arrays.operands({"x": x}, y))


def test_a_dtype_that_numba_lacks_is_said(numba):
    x = np.zeros(3, dtype("bfloat16").numpy)
    with pytest.raises(Unavailable, match="Numba's device arrays have no bfloat16"):
        numba_cuda.bind(find.kernel("gelu"), "", dtype("bfloat16"), host_arrays.operands({"x": x}, x))


def test_releases_that_do_not_fit_together_are_skipped_and_not_failed(numba, monkeypatch):
    def compile_ptx(function, signature, cc):
        raise AttributeError("module 'numpy' has no attribute 'row_stack'")

    monkeypatch.setattr(numba_cuda, "installed", lambda module: True)
    numba.cuda.is_available, numba.cuda.compile_ptx = lambda: True, compile_ptx
    missing = numba_cuda.missing.__wrapped__  # without its cache
    assert "does not work here: AttributeError: module 'numpy' has no attribute 'row_stack'" in missing("cuda")
    numba.cuda.compile_ptx = lambda function, signature, cc: ("ptx", None)
    assert missing("cuda") is None


@pytest.mark.parametrize("name", ["plus_one", "add2d", "gelu"])
def test_numbas_compiler_takes_the_labs_expressions(name, monkeypatch):
    """With numba-cuda and its compiler, without a GPU: to PTX."""
    pytest.importorskip("numba_cuda")
    try:
        from numba import cuda, types
    except Exception as error:  # a release that does not work with this NumPy
        pytest.skip(f"numba-cuda cannot compile a kernel: {error}")

    kernel = find.kernel(name)
    for kind in (dtype(one) for one in kernel.dtypes if one != "bfloat16"):
        found = {}
        exec(numba_cuda.text(kernel.input_names, kernel.output, kernel.numba, kind), found)
        function = found["kernel"].py_func
        arrays = [types.Array(getattr(types, kind.name), 1, "C")] * (len(kernel.input_names) + 1)
        ptx, _ = cuda.compile_ptx(function, tuple(arrays), cc=(9, 0))
        assert ".entry" in ptx
        assert "f64" not in ptx or kind.name == "float16", "Numba computes in float64"
