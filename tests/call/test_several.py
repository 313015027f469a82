"""Calls of kernels with scalars, several outputs and arrays in place, on arrays of NumPy and PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from several import adam, count, first, step

from cudalab import Launch
from cudalab.base.errors import InputError
from cudalab.device import passed
from cudalab.spec.array_info import ArrayInfo


def ones(library, n=1000):
    if library == "numpy":
        return [np.ones(n, np.float32) for _ in range(4)]
    torch = pytest.importorskip("torch")
    return [torch.ones(n) for _ in range(4)]


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_arrays_are_updated_in_place_and_returned(tmp_path, library):
    arrays = ones(library)
    versions = [getattr(a, "_version", 0) for a in arrays]
    p, m, v = adam(tmp_path)(*arrays, lr=0.5)
    assert (p is arrays[0], m is arrays[1], v is arrays[2]) == (True, True, True)
    want = step(*(np.ones(1000) for _ in range(4)), 0.5, *(float(np.float32(b)) for b in (0.9, 0.999)))
    for got, due in zip((p, m, v), want, strict=True):
        np.testing.assert_allclose(np.asarray(got), due, rtol=1e-6)
    if library == "torch":  # tensors know that they were written
        assert [a._version > b for a, b in zip(arrays, versions, strict=True)] == [True, True, True, False]


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_outputs_have_their_own_dtypes_and_shapes(tmp_path, library):
    x = ones(library)[0]
    kernel = count(tmp_path)
    for _ in range(2):  # the buffer that begins at zero is new for each call
        total, counts = kernel(x)
        assert (float(total[0]), np.asarray(counts).tolist()) == (1000.0, [0, 1000])
        assert str(counts.dtype).endswith("int32")
    out = kernel(x)
    again = kernel(x, out=out)
    assert again is out or again == out
    assert np.asarray(out[1]).tolist() == [0, 1000]


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_a_scalar_that_a_call_sets_is_the_length_of_its_output(tmp_path, library):
    x, kernel = ones(library, 12)[0].reshape(2, 6), first(tmp_path)
    x[:, 0] = 5
    assert [tuple(kernel(x, **k).shape) for k in ({}, {"k": 6}, {"k": 1})] == [(2, 4), (2, 6), (2, 1)]
    out = kernel(x, k=2)
    assert np.asarray(out).tolist() == [[5, 1], [5, 1]]
    assert kernel(x, k=2, out=out) is out
    for given, said in (
        ({"k": 7}, r"called with x \(2, 6\): k is 7, but dims says 'at least 1, at most cols', where cols is 6; give "),
        ({"k": 0}, "k is 0, but dims says"),
        ({"k": -1}, "'k' is -1 where k = -1; a length is 0 or more"),
        ({"k": 2.5}, "the scalar k is 2.5; give a number that fits int32"),
        ({"k": 3, "out": out}, r"out has float32 \(2, 2\), first gives float32 \(2, 3\)"),
    ):
        with pytest.raises(InputError, match=said):
            kernel(x, **given)
    with pytest.raises(InputError, match=r"k is 4, but dims says .* where cols is 3; give 3"):
        kernel(x[:, :3] + 0)


def test_torch_knows_the_length_that_a_scalar_gives(tmp_path):
    torch = pytest.importorskip("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode

    from cudalab.call.torch_operator import operator

    call = operator(first(tmp_path))
    with FakeTensorMode():
        assert [tuple(call(torch.ones(3, 9), k).shape) for k in (None, 7)] == [(3, 4), (3, 7)]


def frozen(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f, a: adam(f)(*a, lx=1), "adam takes no 'lx'; its scalars: lr, b1, b2"),
        (lambda f, a: count(f)(a[0], eps=1), "count takes no 'eps'; it has no scalars"),
        (lambda f, a: adam(f)(*a, lr="a"), "the scalar lr is 'a'; give a number that fits float32"),
        (lambda f, a: adam(f)(*a[:3], a[2]), "v overlaps 'g' in memory"),
        (lambda f, a: adam(f)(*a, 1e-3, 0.5), "takes 4 arrays, got 6; pass lr=0.001, b1=0.5"),
        (lambda f, a: adam(f)(*a, a[0]), "takes 4 arrays, got 5"),
        (lambda f, a: adam(f)(frozen(a[0]), *a[1:]), "p is read-only"),
        (lambda f, a: adam(f)(a[0].astype(np.float16), *a[1:]), "and must be float16 because p is float16; convert it"),
        (lambda f, a: adam(f)(a[0].astype(np.int32), *a[1:]), "adam has no int32; convert to one of float32, float16"),
        (lambda f, a: count(f)(a[0].reshape(10, 100)), "x must have 1 dimension ('n'), got the shape (10, 100)"),
        (lambda f, a: count(f)(a[0], out=a[1][:1]), "out has 1 arrays; count takes a tuple of 2 arrays"),
        (lambda f, a: count(f)(a[0], out=(a[1][:1], a[2][:2])), "counts of out has float32 (2,), count gives int32"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, call, message):
    with pytest.raises(InputError) as raised:
        call(tmp_path, ones("numpy"))
    assert message in str(raised.value)


def test_what_has_no_gradient_and_no_torch_form_is_refused(tmp_path):
    torch = pytest.importorskip("torch")
    with pytest.raises(InputError, match="is not differentiable"):
        adam(tmp_path)(torch.ones(9, requires_grad=True), *ones("torch", 9)[1:])
    with pytest.raises(InputError, match=r"torch\.func and .* its spec has no torch="):
        torch.func.vmap(count(tmp_path))(torch.ones(3, 9))


def test_help_says_what_is_updated_and_returned(tmp_path):
    text = adam(tmp_path).__doc__
    assert text.startswith("p, m, v = adam(p, m, v, g, lr=0.01, b1=0.9, b2=0.999)\n")
    assert "p  3000 float32, updated in place" in text
    assert count(tmp_path).__doc__.startswith("total, counts = count(x, out=None)\n")
    assert "counts  2 int32" in count(tmp_path).__doc__


def quiet(value):
    """Compute with a scalar, and let nobody know that this failed."""
    try:
        return value + 1
    except Exception:
        return None


@pytest.mark.parametrize(("look", "unseen"), [
    (lambda lr: lr, True), (lambda lr: lr is None, True), (lambda lr: [lr], True),
    (lambda lr: lr > 0, False), (bool, False), (float, False), (np.sqrt, False), (np.float32, False), (str, False),
    (lambda lr: f"{lr}", False), (lambda lr: lr == 1, False), (lambda lr: isinstance(lr, float), False), (hash, False),
    (lambda lr: lr.dtype, False), (lambda lr: -lr, False), (lambda lr: 2**lr, False), (lambda lr: np.add(1, lr), False),
    (quiet, False), (lambda lr: lr in (1, 2), False), (lambda lr: {lr: 1}, False), (np.asarray, False),
])  # fmt: skip
def test_a_scalar_is_passed_on_only_where_a_launch_function_does_no_more_with_it(tmp_path, look, unseen):
    def launch(p, m, v, g, lr, b1, b2):
        look(lr)
        return Launch((1,), (128,), (p, m, v, g, lr, np.float32(b1), b2, np.int32(p.size)))

    kernel = adam(tmp_path, entries={"adam": launch})
    known = {name: ArrayInfo(name, (100,), np.dtype(np.float32)) for name in "pmvg"}
    found = passed.on(kernel, "adam", known, kernel.scalars_of({}))
    assert found == {"b2": [{6: "b2"}]} | ({"lr": [{4: "lr"}]} if unseen else {})
