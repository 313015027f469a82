"""A kernel that includes a header beside its `.cu`: all code that reads the kernel also reads the current header."""

from __future__ import annotations

import numpy as np
import pytest
import twice

import cudalab
from cudalab.base.errors import CompileError, InputError
from cudalab.device import cuda
from cudalab.spec import cuda_source, find
from cudalab.spec.dtype import dtype
from cudalab.tools import inspect
from cudalab.tools.inspect import compilers

SOURCE = """\
#include "common/mine.cuh"
__global__ void twice(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = doubled(x[i]);
}
"""
HEADER = """\
#pragma once
#include "factor.cuh"
__device__ __forceinline__ float doubled(float x) { return FACTOR * x; }
"""
ON_THE_HOST = {"sizes": "small", "only": "host", "device": "cpu"}


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "mine.cuh").write_text(HEADER)
    factor(tmp_path, 2)
    return twice.written(tmp_path, source=SOURCE)


def factor(folder, value):
    (folder / "common" / "factor.cuh").write_text(f"#define FACTOR {value}.0f\n")


def test_the_headers_of_a_kernel(spec):
    found = cuda_source.local_headers(SOURCE, spec.with_suffix(".cu"))
    assert [str(path.relative_to(spec.parent)) for path in found] == ["common/mine.cuh", "common/factor.cuh"]


@pytest.mark.sweep
def test_a_check_sees_an_edited_header(spec):
    statuses, digests = [], []
    for value in (2, 3, 2):
        factor(spec.parent, value)
        run = cudalab.check(spec, **ON_THE_HOST)
        statuses.append(run.cases[0].status)
        digests.append(run.sources["twice.cu"])
    assert statuses == ["ok", "WRONG", "ok"]
    assert digests[0] == digests[2] != digests[1]


def test_a_call_sees_an_edited_header(spec):
    x = np.arange(10, dtype=np.float32)
    for value in (2, 3):
        factor(spec.parent, value)
        np.testing.assert_array_equal(find.kernel(str(spec))(x), value * x)


@pytest.mark.process
def test_a_run_ends_where_a_header_is_edited(spec):
    def edit(event):
        if event.finished:
            factor(spec.parent, 3)

    before, after = cudalab.check(spec, **{**ON_THE_HOST, "sizes": "small,large"}, progress=edit).cases
    assert (before.status, after.status) == ("ok", "error")
    assert after.reason.endswith("twice.cu has changed since this run began")


@pytest.mark.process
def test_a_run_is_not_resumed_with_another_header(spec, tmp_path):
    asked = {**ON_THE_HOST, "sizes": "small,large", "budget": 0.01}
    out = tmp_path / "r.json"
    run = cudalab.bench(spec, **asked, output=out)
    run.cases, run.complete = run.cases[:1], False
    run.save(out)
    factor(spec.parent, 3)
    with pytest.raises(InputError, match=r"twice\.cu has changed"):
        cudalab.bench(spec, **asked, resume=out)
    factor(spec.parent, 2)
    assert len(cudalab.bench(spec, **asked, resume=out).cases) == 2


@pytest.mark.sweep
def test_the_sanitizer_names_the_line_of_a_header(spec):
    (spec.parent / "common" / "mine.cuh").write_text(HEADER.replace("FACTOR * x", "(&x)[100000000] + FACTOR * x"))
    (row,) = cudalab.check(spec, **ON_THE_HOST, sanitize=True).cases
    assert "mine.cuh:3" in row.reason


@pytest.mark.sweep
@pytest.mark.skipif(not cuda.nvcc() or not compilers.nvdisasm(), reason="nvcc or nvdisasm is not here")
def test_inspect_sees_an_edited_header(spec):
    digests = []
    for value in (2, 3):
        factor(spec.parent, value)
        (one,) = inspect.inspect(str(spec), archs="sm_90")
        digests.append(one.digest)
        assert {i.file for i in one.code.instructions} >= {"twice.cu", "mine.cuh"}
    assert digests[0] != digests[1]
    (spec.parent / "common" / "factor.cuh").write_text("#define FACTOR no_such_name\n")
    with pytest.raises(CompileError, match=r'mine\.cuh\(3\): error: identifier "no_such_name" is undefined'):
        compilers.compiled(find.kernel(str(spec)), dtype("float32"), "sm_90")
