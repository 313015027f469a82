"""`cudalab.nn.GELU` where `torch.nn.GELU` stood."""

from __future__ import annotations

import copy
import io
import pickle

import pytest

torch = pytest.importorskip("torch")

from cudalab import nn  # noqa: E402

EVERYWHERE = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
FORMS = pytest.mark.parametrize("form", ["none", "tanh"])


def both(form, x):
    """Value and gradient of ours and of PyTorch's."""
    found = []
    for module in (nn.GELU(form), torch.nn.GELU(form)):
        leaf = x.detach().clone().requires_grad_()
        y = module(leaf)
        y.backward(torch.ones_like(y))
        found.append((y.detach(), leaf.grad))
    return found


@EVERYWHERE
@FORMS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_values_and_gradients(device, form, dtype):
    eps = torch.finfo(dtype).eps
    x = torch.randn(6, 35, device=device, dtype=dtype)
    for given in (x, x[:0], x[1:, 3:], x.t(), x[0, 0], x.view(2, 3, 7, 5).to(memory_format=torch.channels_last)):
        (y, slope), (want, want_slope) = both(form, given)
        assert y.dtype == want.dtype
        torch.testing.assert_close(y, want, rtol=8 * eps, atol=8 * eps)
        torch.testing.assert_close(slope, want_slope, rtol=8 * eps, atol=8 * eps)


@FORMS
def test_it_looks_and_is_kept_as_pytorchs(form):
    ours, theirs = nn.GELU(approximate=form), torch.nn.GELU(approximate=form)
    assert repr(ours) == repr(theirs)
    assert isinstance(ours, torch.nn.GELU)
    assert ours.state_dict() == theirs.state_dict() == {}
    ours.load_state_dict(theirs.state_dict())
    file = io.BytesIO()
    torch.save(torch.nn.Sequential(torch.nn.Linear(2, 2), ours), file)
    file.seek(0)
    x = torch.randn(5)
    for again in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours)), torch.load(file, weights_only=False)[1]):
        assert type(again) is nn.GELU
        assert again.approximate == form
        assert torch.equal(again(x), theirs(x))


def test_what_the_kernels_do_not_take_goes_to_pytorch():
    assert nn.GELU()(torch.empty(3, 4, device="meta")).shape == (3, 4)
    with pytest.raises(RuntimeError, match="approximate argument must be either none or tanh"):
        nn.GELU("erf")(torch.randn(3))
    with pytest.raises(RuntimeError, match="not implemented"):
        nn.GELU()(torch.arange(3))
    x = torch.randn(4, 3)
    assert torch.equal(torch.func.vmap(nn.GELU())(x), torch.nn.functional.gelu(x))


class Tagged(torch.Tensor):
    """A subclass as users write it."""


@EVERYWHERE
@FORMS
def test_tensors_that_are_more_than_their_elements(device, form):
    x = torch.randn(3, 5, device=device)
    ours, theirs = nn.GELU(form), torch.nn.GELU(form)
    got = ours(x.as_subclass(Tagged))
    assert type(got) is Tagged
    assert torch.equal(got.as_subclass(torch.Tensor), theirs(x))
    mirrored = torch.complex(x, x).conj().imag
    assert mirrored.is_neg()
    torch.testing.assert_close(ours(mirrored), theirs(mirrored))


def test_a_default_device_does_not_change_who_computes(monkeypatch):
    called = []
    monkeypatch.setitem(nn.FORMS, "none", lambda x: called.append(x) or x)
    with torch.device("cpu"):
        nn.GELU()(torch.randn(3))
        nn.GELU()(torch.nn.Parameter(torch.randn(3)))
    assert len(called) == 2


@pytest.mark.slow
@EVERYWHERE
@FORMS
def test_in_a_compiled_model_and_under_autocast(device, form):
    torch._dynamo.reset()
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), nn.GELU(form), torch.nn.Linear(32, 4)).to(device)
    plain = torch.nn.Sequential(model[0], torch.nn.GELU(form), model[2])
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    x = torch.randn(5, 8, device=device)
    torch.testing.assert_close(compiled(x), plain(x), rtol=1e-4, atol=1e-5)
    compiled(x).sum().backward()
    assert torch._dynamo.explain(model)(x).graph_break_count == 0
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast(device, dtype=dtype):
            hidden = model[0](x)
            assert nn.GELU(form)(hidden).dtype == torch.nn.GELU(form)(hidden).dtype
            torch.testing.assert_close(compiled(x), plain(x), rtol=2e-2, atol=2e-2)
    torch._dynamo.reset()
