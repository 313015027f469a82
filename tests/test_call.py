"""Kernels as functions on the CPU: NumPy arrays and torch CPU tensors through the host's compiler."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from cudalab.kernels.add2d import add2d
from cudalab.kernels.gelu import gelu
from cudalab.kernels.plus_one import plus_one

from cudalab.errors import InputError

X = np.linspace(-5, 5, 1001, dtype=np.float32)


@pytest.mark.parametrize("kind", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_numpy(kind):
    y = gelu(X.astype(kind))
    assert y.dtype == kind
    want = gelu.reference(X.astype(kind).astype(np.float64))
    np.testing.assert_allclose(
        y.astype(np.float64), want, rtol=2.0 ** (-23 + 4 if kind == np.float32 else -7), atol=1e-6
    )


def test_shapes_and_several_inputs():
    a = np.arange(15, dtype=np.float32).reshape(3, 5)
    np.testing.assert_array_equal(add2d(a, a + 1), 2 * a + 1)
    np.testing.assert_array_equal(plus_one(np.arange(6, dtype=np.int32).reshape(1, 2, 3)).ravel(), np.arange(1, 7))
    assert gelu(np.empty((0, 3), np.float32)).shape == (0, 3)


def test_out_is_written_and_returned_also_in_place():
    out = np.full_like(X, np.nan)
    assert gelu(X, out=out) is out
    np.testing.assert_array_equal(out, gelu(X))
    x = X.copy()
    gelu(x, out=x)
    np.testing.assert_array_equal(x, out)


def test_arrays_are_never_written_into_a_message_that_is_not_needed():
    """Formatting a CUDA tensor copies it to the host: slow, and the end of a capture."""

    class Loud(np.ndarray):
        def __repr__(self):
            raise AssertionError("formatted")

    gelu.launch("gelu_vec", {"x": X.view(Loud), "y": np.empty_like(X).view(Loud)})


def test_misaligned_views_are_right():
    for start in (1, 2, 3):
        np.testing.assert_array_equal(gelu(X[start:]), gelu(X[start:].copy()))


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_torch_tensors_on_the_cpu(name):
    torch = pytest.importorskip("torch")
    x = torch.linspace(-5, 5, 1001).to(getattr(torch, name))
    y = gelu(x)
    assert isinstance(y, torch.Tensor)
    assert y.dtype == x.dtype
    torch.testing.assert_close(y, torch.nn.functional.gelu(x), rtol=1.6e-2 if name == "bfloat16" else 1e-3, atol=1e-5)
    with pytest.raises(InputError, match="one library"):
        add2d(torch.ones(2, 2), np.ones((2, 2), np.float32))
    with pytest.raises(InputError, match="does not differentiate"):
        gelu(x.float().requires_grad_())
    with torch.no_grad():
        gelu(x.float().requires_grad_())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gelu(), "takes 1 array, got 0"),
        (lambda: gelu(X, X), "takes 1 array, got 2"),
        (lambda: gelu([1.0, 2.0]), "one library .*got builtins.list"),
        (lambda: gelu(X[::2]), r"not C-contiguous; pass np.ascontiguousarray\(x\)"),
        (lambda: gelu(X.reshape(7, -1).T), "not C-contiguous"),
        (lambda: gelu(X.astype(np.float64)), "has no float64; convert to one of float32, float16, bfloat16"),
        (lambda: gelu(X.astype(complex)), "arrays of complex128 are not supported"),
        (lambda: add2d(X, X), "sizes of 2 dimensions"),
        (lambda: add2d(np.ones((2, 3), np.float32), np.ones((3, 2), np.float32)), "must agree"),
        (lambda: gelu(X, out=np.empty(3, np.float32)), r"out has float32 \(3,\), gelu gives float32 \(1001,\)"),
        (lambda: gelu(X, out=np.empty(1001, np.float16)), "out has float16"),
        (lambda: gelu(X[1:], out=X[:-1]), "out overlaps 'x'"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
