"""Both ways in which a spec may import its names give kernels that can be called."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

import cudalab
from cudalab.base.errors import SpecError
from cudalab.call import kernel as kernels
from cudalab.spec import find
from cudalab.spec.kernel import Kernel as Record

NAMES = "Budget, Kernel, Launch, blocks"
WAYS = {"new": f"from cudalab import {NAMES}", "old": f"from cudalab.spec import {NAMES}"}
SPEC = """
import numpy as np
{imports}

twice = Kernel(
    file=__file__, summary="y = 2 x", dtypes=("float32",), sizes={{"small": (1000,)}}, edges=((1,), (33,)),
    reference=lambda x: 2 * x, torch=lambda x: x + x, budgets={{"float32": Budget(0)}}, pointwise=True,
    entries={{"twice": lambda x, y, N: Launch((blocks(x.size, N),), (N,), (x, y, np.int64(x.size)))}},
    tunables={{"N": (64, 128)}},
)
"""
CU = """
__global__ void twice(const float* x, float* y, long long n) {
    const long long i = (long long)blockIdx.x * N + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
"""


def spec_that(imports, folder):
    (folder / "twice.py").write_text(SPEC.format(imports=imports))
    (folder / "twice.cu").write_text(CU)
    return folder / "twice.py"


@pytest.fixture(params=WAYS)
def kernel(request, tmp_path):
    return find.kernel(str(spec_that(WAYS[request.param], tmp_path)))


X = np.arange(100, dtype=np.float32)


def test_it_and_what_is_made_of_it_are_called_with_arrays_of_numpy(kernel):
    assert isinstance(kernel, cudalab.Kernel)
    np.testing.assert_array_equal(kernel(X), 2 * X)
    out = np.empty_like(X)
    assert kernel(X, out=out) is out
    np.testing.assert_array_equal(out, 2 * X)
    assert deepcopy(kernel) is kernel
    for made in (replace(kernel, edges=()), kernel.with_parameters({"N": 128})):
        assert type(made) is cudalab.Kernel
        assert made._calls is not kernel._calls
        np.testing.assert_array_equal(made(X), 2 * X)


def test_old_names_are_those_of_the_public_face():
    from cudalab import spec

    for name in ("Budget", "Kernel", "Launch", "blocks", "counted", "deep_grid", "draw"):
        assert getattr(spec, name) is getattr(cudalab, name)
        assert name in dir(spec)
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        exec("from cudalab.spec import nothing")


def test_a_kernel_by_its_name_can_be_called_or_says_what_to_import(tmp_path):
    assert kernels.by_name("gelu") is find.kernel("gelu")
    spec = spec_that("from cudalab.spec.kernel import Budget, Kernel, Launch, blocks", tmp_path)
    assert type(find.kernel(str(spec))) is Record
    with pytest.raises(SpecError, match="twice cannot be called; write `from cudalab import Kernel`"):
        kernels.by_name(str(spec))
