"""Calls with arrays of every kind of dtype: NumPy arrays and torch tensors on the CPU."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import specs

from cudalab import host
from cudalab.base.errors import InputError
from cudalab.spec import find
from cudalab.spec.dtype import DTYPES, dtype
from cudalab.spec.inputs import draw

KERNELS = Path(__file__).parents[1] / "data" / "kernels"

pytestmark = pytest.mark.skipif(host.compiler_missing() is not None, reason="no C++ compiler")


def kernel(name):
    return find.kernel(str(KERNELS / f"{name}.py"))


COPY = """
#include <cuComplex.h>
#include <cuda_fp8.h>
__global__ void same(const scalar_t* x, scalar_t* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
"""


@pytest.fixture(scope="module")
def same(tmp_path_factory):
    return specs.kernel(tmp_path_factory.mktemp("same"), "same", COPY, dtypes=tuple(DTYPES), pointwise=True)


@pytest.mark.parametrize("name", DTYPES)
def test_numpy_and_torch_arrays_of_every_dtype(same, name):
    x = draw((40,), dtype(name).numpy, np.random.default_rng(0))
    y = same(x)
    assert y.dtype == x.dtype and y.tobytes() == x.tobytes()
    torch = pytest.importorskip("torch")
    if not hasattr(torch, name):
        pytest.skip(f"this PyTorch has no {name}")
    from cudalab.device.arrays import to_torch

    t = to_torch(x)
    assert t.dtype == getattr(torch, name)
    z = same(t)
    assert z.dtype == t.dtype and z.untyped_storage().data_ptr() != t.untyped_storage().data_ptr()
    bits = getattr(torch, f"int{8 * min(x.itemsize, 8)}")
    assert torch.equal(z.view(bits), t.view(bits)) if name != "complex128" else torch.equal(z, t)


def test_kernels_as_users_write_them():
    x = np.array([-128, -1, 0, 1, 127], np.int8)
    np.testing.assert_array_equal(kernel("int8_relu")(x), np.maximum(x, 0))
    mask = np.array([True, False, True])
    np.testing.assert_array_equal(kernel("bool_not")(mask), ~mask)
    a, b = np.array([1 + 2j, 3j], np.complex64), np.array([5 - 1j, 2], np.complex64)
    np.testing.assert_array_equal(kernel("complex_multiply")(a, b), a * b)
    v = np.array([-1.5, 0.25, 448], ml_dtypes.float8_e4m3fn)
    np.testing.assert_array_equal(kernel("fp8_relu")(v).astype(float), [0, 0.25, 448])
    with pytest.raises(InputError, match=r"bool_not has no uint8; convert to bool$"):
        kernel("bool_not")(x.view(np.uint8))


def test_a_conjugate_view_is_refused_by_name(same):
    torch = pytest.importorskip("torch")
    x = torch.tensor([1 + 2j], dtype=torch.complex64)
    assert same(x.conj().resolve_conj())[0] == 1 - 2j
    with pytest.raises(InputError, match=r"conjugate view, .* pass x.resolve_conj\(\)"):
        same(x.conj())
