"""Kernels with scalars, several outputs and arrays in place in PyTorch programs."""

from __future__ import annotations

import pytest
from several import adam, count, rms, rms_form

from cudalab.base.errors import InputError
from cudalab.call.torch_operator import operator

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("one_torch_thread")


def inputs(dtype=torch.float32):
    made = torch.Generator().manual_seed(0)
    pair = torch.randn(5, 33, generator=made).to(dtype), torch.randn(33, generator=made).to(dtype)
    return tuple(x.clone().requires_grad_() for x in pair), tuple(x.clone().requires_grad_() for x in pair)


def ways(kernel):
    """A call, the operator, and what a call on a GPU does, where PyTorch does not differentiate the form itself."""
    return {
        "call": lambda x, w, eps: kernel(x, w, eps=eps),
        "operator": lambda x, w, eps: operator(kernel)(x, w, eps=eps),
        "differentiable": lambda x, w, eps: kernel._calls.operator.differentiable((x, w), {"eps": eps}),
    }


@pytest.mark.parametrize("way", ["call", "operator", "differentiable"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_gradients_are_those_of_pytorch(tmp_path, way, dtype):
    mine, same = inputs(dtype)
    y, scale = ways(rms(tmp_path))[way](*mine, 0.5)
    want, due = rms_form(*same, 0.5)
    for got, one in ((y, want), (scale, due)):
        torch.testing.assert_close(got.detach(), one.detach())
    (y.float().pow(2).sum() + scale.sin().sum()).backward()
    (want.float().pow(2).sum() + due.sin().sum()).backward()
    for got, one in zip(mine, same, strict=True):
        assert got.grad.dtype == dtype
        torch.testing.assert_close(got.grad, one.grad, rtol=1e-4 if dtype == torch.float32 else 1e-2, atol=1e-3)


@pytest.mark.parametrize("way", ["operator", "differentiable"])
def test_an_output_that_nothing_depends_on_has_a_gradient_of_zeros(tmp_path, way):
    mine, same = inputs()
    ways(rms(tmp_path))[way](*mine, 1e-5)[0].sum().backward()
    rms_form(*same, 1e-5)[0].sum().backward()
    torch.testing.assert_close(mine[0].grad, same[0].grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("way", ["operator", "differentiable"])
def test_only_what_backward_names_is_kept(tmp_path, way):
    kernel = rms(tmp_path, backward=lambda dy, w, scale, eps: (dy * w * scale[:, None] * eps, None))
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(tuple(x.shape)), lambda x: x):
        ways(kernel)[way](*inputs()[0], 0.25)
    assert kept == [(33,), (5,)]


@pytest.mark.parametrize("way", ["operator", "differentiable"])
def test_second_derivatives_are_those_of_pytorch_or_refused(tmp_path, way):
    mine, same = inputs()
    for form, at in ((ways(rms(tmp_path))[way], mine), (rms_form, same)):
        (slope,) = torch.autograd.grad(form(*at, 0.5)[0].pow(2).sum(), at[0], create_graph=True)
        slope.pow(2).sum().backward()
    torch.testing.assert_close(mine[0].grad, same[0].grad, rtol=1e-3, atol=1e-4)
    kernel = rms(tmp_path, backward=lambda dy, w: (dy * w, None))
    (x, w), _ = inputs()
    with pytest.raises(InputError, match="no second derivative: its backward does not take x"):
        torch.autograd.grad(ways(kernel)[way](x, w, 0.5)[0].sum(), x, create_graph=True)


OPCHECKED = {
    "rms": (rms, lambda: inputs()[0], {"eps": 0.5}),
    "adam": (adam, lambda: tuple(torch.rand(4, 100)), {}),
    "count": (count, lambda: (torch.rand(300),), {}),
}


@pytest.mark.parametrize("name", OPCHECKED)
def test_opcheck(tmp_path, name):
    made, given, scalars = OPCHECKED[name]
    assert set(torch.library.opcheck(operator(made(tmp_path)), given(), scalars).values()) == {"SUCCESS"}


def test_the_operator_has_scalars_and_says_what_it_updates(tmp_path):
    text = str(operator(adam(tmp_path))._schema)
    assert "Tensor(a!) p, Tensor(b!) m, Tensor(c!) v, Tensor g, float? lr=None" in text and text.endswith("-> ()")
    text = str(operator(rms(tmp_path))._schema)
    assert "(Tensor x, Tensor w, float? eps=None) -> (Tensor, Tensor)" in text


def test_the_operator_updates_what_is_not_contiguous(tmp_path):
    kernel, (p, m, v, g) = adam(tmp_path), torch.rand(4, 6, 2).unbind()
    want = [x.clone().reshape(-1) for x in (p, m, v)]
    kernel(*want, g.reshape(-1), lr=0.5)
    p, m, v, g = (torch.stack([x.reshape(-1), x.reshape(-1)], 1)[:, 0] for x in (p, m, v, g))
    assert not p.is_contiguous()
    operator(kernel)(p, m, v, g, lr=0.5)
    for got, due in zip((p, m, v), want, strict=True):
        torch.testing.assert_close(got, due)


@pytest.fixture
def compiled():
    torch._dynamo.reset()
    yield lambda program: torch.compile(program, fullgraph=True, backend="aot_eager")
    torch._dynamo.reset()


def test_compile_with_scalars_several_outputs_and_gradients(tmp_path, compiled):
    kernel = rms(tmp_path)

    def program(x, w):
        y, scale = kernel(x * 2, w, eps=0.5)
        return y + scale[:, None]

    mine, same = inputs()
    compiled(program)(*mine).sum().backward()
    y, scale = rms_form(same[0] * 2, same[1], 0.5)
    (y + scale[:, None]).sum().backward()
    for got, one in zip(mine, same, strict=True):
        torch.testing.assert_close(got.grad, one.grad, rtol=1e-4, atol=1e-4)


def test_compile_with_out_and_with_arrays_in_place(tmp_path, compiled):
    kernel, step = rms(tmp_path), adam(tmp_path)
    (x, w), _ = inputs()
    x, w, out = x.detach(), w.detach(), (torch.empty(5, 33), torch.empty(5))
    found = compiled(lambda x, w, a, b: kernel(x, w, out=(a, b)))(x, w, *out)
    assert found[0] is out[0] and found[1] is out[1]
    torch.testing.assert_close(out, rms_form(x, w, float(torch.tensor(1e-5))))
    arrays = torch.rand(4, 100).unbind()
    want = [a.clone() for a in arrays]
    step(*want, lr=0.5)
    compiled(lambda *a: step(*a, lr=0.5))(*arrays)
    torch.testing.assert_close(list(arrays), want)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda k, x, w: k(x, w, ops=1), "takes no 'ops'; its scalars: eps"),
        (lambda k, x, w: k(x), "takes 2 arrays, got 1"),
        (lambda k, x, w: k(x, w, out=x), "out has 1 arrays; .* gives 2"),
    ],
)
def test_what_does_not_fit_is_refused_while_recording(tmp_path, compiled, call, message):
    kernel = rms(tmp_path)
    (x, w), _ = inputs()
    with pytest.raises(Exception, match=message):  # torch.compile wraps the error
        compiled(lambda x, w: call(kernel, x, w))(x.detach(), w.detach())


def test_torch_func_gets_the_torch_form(tmp_path):
    (x, w), _ = inputs()
    x, w = x.detach(), w.detach()
    found = torch.func.vmap(lambda one: rms(tmp_path)(one, w, eps=0.5)[1])(torch.stack([x, 2 * x]))
    torch.testing.assert_close(found[1], rms_form(2 * x, w, 0.5)[1])
