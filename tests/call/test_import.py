"""Both ways in which a spec may import its names give kernels that can be called."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import twice

import cudalab
from cudalab.base.errors import SpecError
from cudalab.call import kernel as kernels
from cudalab.spec import find
from cudalab.spec.kernel import Kernel as Record

OLD = "from cudalab.spec import Budget, Kernel, Launch, blocks"
NEW = "from cudalab import Budget, Kernel, Launch, blocks"
RECORDS = "from cudalab.spec.kernel import Budget, Kernel, Launch, blocks"


def spec_that(imports, folder):
    text = twice.SPEC.replace(OLD, imports).replace("pointwise=True", 'pointwise=True, tunables={"N": (64, 128)}')
    text = text.replace(
        "lambda x, y: Launch((blocks(x.size, 128),), (128,)", "lambda x, y, N: Launch((blocks(x.size, N),), (N,)"
    )
    return str(twice.written(folder / "of_a_user", text))


@pytest.fixture(params=[NEW, OLD], ids=["new", "old"])
def kernel(request, tmp_path):
    return find.kernel(spec_that(request.param, tmp_path))


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
    spec = spec_that(RECORDS, tmp_path)
    assert type(find.kernel(spec)) is Record
    with pytest.raises(SpecError, match="twice cannot be called; write `from cudalab import Kernel`"):
        kernels.by_name(spec)
