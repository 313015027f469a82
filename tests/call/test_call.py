"""Kernels as functions on the CPU: NumPy arrays through the host's compiler, torch tensors as their torch form."""

from __future__ import annotations

import warnings
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
import specs

from cudalab.base.errors import InputError, SpecError
from cudalab.kernels.add2d import add2d
from cudalab.kernels.bias_gelu import bias_gelu
from cudalab.kernels.gelu import gelu
from cudalab.kernels.layernorm import layernorm
from cudalab.kernels.matmul import matmul
from cudalab.kernels.plus_one import plus_one
from cudalab.spec import find

X = np.linspace(-5, 5, 1001, dtype=np.float32)


HALVES = [pytest.param(kind, marks=pytest.mark.sweep) for kind in (np.float16, ml_dtypes.bfloat16)]


@pytest.mark.parametrize("kind", [np.float32, *HALVES])
def test_numpy(kind):
    x = X.astype(kind)
    y, want = gelu(x), gelu.reference(x.astype(np.float64))
    assert y.dtype == kind
    near = 2.0 ** (-23 + 4 if kind == np.float32 else -7)
    np.testing.assert_allclose(y.astype(np.float64), want, rtol=near, atol=1e-6)


def test_shapes_and_several_inputs():
    a = np.arange(15, dtype=np.float32).reshape(3, 5)
    np.testing.assert_array_equal(add2d(a, a + 1), 2 * a + 1)
    np.testing.assert_array_equal(plus_one(np.arange(6, dtype=np.int32).reshape(1, 2, 3)).ravel(), np.arange(1, 7))
    assert gelu(np.empty((0, 3), np.float32)).shape == (0, 3)


def test_inputs_of_different_shapes():
    rng = np.random.default_rng(0)
    a, b, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((5, 3), (3, 4), (3,)))
    np.testing.assert_allclose(matmul(a, b), a @ b, rtol=1e-5)
    np.testing.assert_allclose(bias_gelu(a, bias), gelu(a + bias), rtol=1e-5)
    torch = pytest.importorskip("torch")
    with torch.autocast("cpu", dtype=torch.bfloat16):  # which would make bfloat16 of the product
        np.testing.assert_allclose(matmul(torch.from_numpy(a), torch.from_numpy(b)), a @ b, rtol=1e-5)


@pytest.mark.parametrize(
    ("kernel", "shapes"),
    [
        (bias_gelu, [(8, 6), (3,)]), (bias_gelu, [(8, 6), (1, 6)]), (bias_gelu, [(6,), (6,)]),
        (layernorm, [(8, 6), (6,), (5,)]), (layernorm, [(6,), (6,), (6,)]),
        (matmul, [(5, 3), (4, 3)]), (matmul, [(5,), (5, 3)]), (matmul, [(2, 5, 3), (3, 4)]),
    ],
)  # fmt: skip
def test_what_would_be_read_out_of_bounds_is_refused(kernel, shapes):
    said = rf"{kernel.name} is called with \w+ \(.*\): .* (in \w+$|in \w+, of shape|got the shape)"
    with pytest.raises(InputError, match=said):
        kernel(*(np.ones(shape, np.float32) for shape in shapes))


def test_every_kernel_of_the_lab_says_which_inputs_go_together():
    for kernel in find.kernels().values():
        assert kernel.pointwise or len(kernel.input_names) == 1 or kernel.shapes, kernel.name


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
    x = np.resize(X, 2**18 + 9)  # so many that a call takes packs
    for start in (1, 2, 3):
        np.testing.assert_array_equal(gelu(x[start:]), gelu(x[start:].copy()))


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_torch_tensors_on_the_cpu(name):
    torch = pytest.importorskip("torch")
    x = torch.linspace(-5, 5, 1001).to(getattr(torch, name))
    y = gelu(x)
    assert isinstance(y, torch.Tensor)
    assert torch.equal(y, torch.nn.functional.gelu(x))
    out = torch.empty_like(x)
    version = out._version
    assert gelu(x, out=out) is out
    assert torch.equal(out, y)
    assert out._version > version
    gelu(x, out=x)
    assert torch.equal(x, y)
    with pytest.raises(InputError, match="one library"):
        add2d(torch.ones(2, 2), np.ones((2, 2), np.float32))


def test_torch_tensors_that_do_not_fit():
    torch = pytest.importorskip("torch")
    x, needy = torch.ones(3, 4), torch.ones(3, 4, requires_grad=True)
    for call, message in (
        (lambda: gelu(x.t()), "not C-contiguous"),
        (lambda: gelu(x.double()), "has no float64"),
        (lambda: gelu(x, out=torch.ones(4)), "out has float32"),
        (lambda: gelu(x.view(-1)[1:], out=x.view(-1)[:-1]), "out overlaps 'x'"),
        (lambda: add2d(needy, x), "is not differentiable; pass x.detach"),
        (lambda: gelu(needy, out=x), "a result written to out has no gradient"),
        (lambda: gelu(x, out=needy), "a result written to out has no gradient"),
    ):
        with pytest.raises(InputError, match=message):
            call()
    with torch.no_grad():
        assert torch.equal(add2d(needy, x), needy + x)
        gelu(x, out=needy)


def test_a_kernel_without_a_torch_form_runs_on_the_cpu_through_the_hosts_compiler():
    torch = pytest.importorskip("torch")
    bare = replace(gelu, torch=None, torch_native=None)
    x = torch.linspace(-5, 5, 1001, requires_grad=True)
    y, want = bare(x), torch.nn.functional.gelu(x)
    torch.testing.assert_close(y, want, rtol=1e-5, atol=1e-6)
    for one, other in zip(torch.autograd.grad(y.sum(), x), torch.autograd.grad(want.sum(), x), strict=True):
        torch.testing.assert_close(one, other)
    with pytest.raises(InputError, match="no second derivative: its spec has no torch="):
        torch.autograd.grad(bare(x).sum(), x, create_graph=True)
    with pytest.raises(InputError, match=r"torch\.func and .* its spec has no torch="):
        torch.func.vmap(bare)(x.detach())


def test_a_tensor_on_the_cpu_shows_the_mistake_of_a_users_cu_or_a_warning_that_it_cannot(tmp_path):
    torch = pytest.importorskip("torch")
    code = "__global__ void own(const float* x, float* y, int n) { y[threadIdx.x] = x[threadIdx.x]%s; }"
    kernel = specs.kernel(tmp_path, "own", code % " * 3", reference=lambda x: 2 * x, torch=lambda x: 2 * x)
    x = torch.arange(64.0)
    assert torch.equal(kernel(x), 3 * x)
    out = torch.empty_like(x)
    assert kernel(x, out=out) is out and torch.equal(out, 3 * x)
    assert "for tensors of PyTorch on the CPU" in kernel.__doc__ and "get the torch form" in gelu.__doc__
    kernel.cu.write_text(code % ' * 3; asm volatile ("")')
    said = r"own of a tensor on the CPU is computed by the spec's torch form.*own.cu:1"
    with pytest.warns(RuntimeWarning, match=said):
        assert torch.equal(kernel(x), 2 * x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it warns once
        assert torch.equal(kernel(x), 2 * x)


def test_a_torch_form_that_gives_something_else_is_refused():
    torch = pytest.importorskip("torch")
    for form in (lambda x: x.double(), lambda x: x[:2]):
        with pytest.raises(SpecError, match=r"torch= returns .*, but the kernel returns float32"):
            replace(gelu, torch_native=form)(torch.ones(3))
    x = torch.ones(3)
    same = replace(gelu, torch_native=lambda x: x)(x)
    assert same.data_ptr() != x.data_ptr()  # a new array for every form


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gelu(), "takes 1 array, got 0"),
        (lambda: gelu(X, X), "takes 1 array, got 2"),
        (lambda: gelu([1.0, 2.0]), "one library .*got builtins.list"),
        (lambda: gelu(X[::2]), r"not C-contiguous; pass np.ascontiguousarray\(x\)"),
        (lambda: gelu(X.reshape(7, -1).T), "not C-contiguous"),
        (lambda: gelu(X.astype(np.float64)), "has no float64; convert to one of float32, float16, bfloat16"),
        (lambda: gelu(X.astype(object)), "arrays of object are not supported"),
        (lambda: add2d(X, X), r"a must have 2 dimensions \('rows cols'\), got the shape \(1001,\)"),
        (lambda: add2d(np.ones((2, 3), np.float32), np.ones((3, 2), np.float32)), "must agree"),
        (lambda: gelu(X, out=np.empty(3, np.float32)), r"out has float32 \(3,\), gelu gives float32 \(1001,\)"),
        (lambda: gelu(X, out=np.empty(1001, np.float16)), "out has float16"),
        (lambda: gelu(X[1:], out=X[:-1]), "out overlaps 'x'"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
