"""A library that changes the floating-point mode of the process does not change verdicts."""

from __future__ import annotations

import ctypes
import os
import subprocess

import numpy as np
import pytest
import specs

from cudalab import host
from cudalab.base import float_mode, threads
from cudalab.checks import parity
from cudalab.checks.expected import Expected
from cudalab.spec.dtype import dtype

SMALL = np.float32(1e-40)  # subnormal

FLUSHES = b"__attribute__((constructor)) static void start() { __builtin_ia32_ldmxcsr(0x9fc0); }"

pytestmark = [
    pytest.mark.skipif(host.compiler_missing() is not None, reason="no C++ compiler"),
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="no MXCSR"),
]


@pytest.fixture
def flushing(tmp_path):
    """A library was loaded whose start-up code flushes subnormal numbers to zero, as that of -Ofast does."""
    library = tmp_path / "fast.so"
    subprocess.run(["g++", "-shared", "-fPIC", "-x", "c++", "-", "-o", library], input=FLUSHES, check=True)
    ctypes.CDLL(str(library))
    assert np.full(1, SMALL) * np.float32(1) == 0
    yield
    float_mode.restore()


def test_a_thread_keeps_subnormal_numbers_again(flushing):
    float_mode.restore()
    assert np.full(1, SMALL) * np.float32(1) == SMALL


def test_threads_of_the_lab_keep_subnormal_numbers(flushing):
    x = np.full(3 * threads.CHUNK, SMALL)
    assert all(threads.each(lambda s: (x[s].astype(np.float64) > 0).all(), x.size))


def test_a_flushed_result_is_wrong(flushing, tmp_path):
    kernel, x = specs.kernel(tmp_path, text=""), np.full(4, SMALL)
    expected, float32 = Expected(kernel, {"x": x}), dtype("float32")
    budgets = {"y": kernel.budget(float32)}
    assert parity.compare_all(kernel, float32, budgets, [x], expected, {"x": x}).ok
    assert not parity.compare_all(kernel, float32, budgets, [np.zeros(4, np.float32)], expected, {"x": x}).ok
