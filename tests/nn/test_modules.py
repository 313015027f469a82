"""Modules of `cudalab.nn` where those of `torch.nn` stood."""

from __future__ import annotations

import copy
import inspect
import io
import pickle

import pytest

torch = pytest.importorskip("torch")

from cudalab import nn  # noqa: E402
from cudalab.nn import activations, loss, norms, softmax  # noqa: E402

F = torch.nn.functional
EVERYWHERE = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
HALVES = [torch.float16, torch.bfloat16]
pytestmark = [
    pytest.mark.usefixtures("one_torch_thread"),
    pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight"),  # PyTorch's RMSNorm, under autocast
]


class OfSwiGLU(torch.nn.Module):
    """What SwiGLU computes; torch.nn has no module for it."""

    def forward(self, gate, up):
        return F.silu(gate) * up


def standard(module):
    return OfSwiGLU if module is nn.SwiGLU else getattr(torch.nn, module.__name__)


MODULES = {  # with arguments of each
    "gelu": (nn.GELU, {}),
    "gelu_tanh": (nn.GELU, {"approximate": "tanh"}),
    "swiglu": (nn.SwiGLU, {}),
    "rmsnorm": (nn.RMSNorm, {"normalized_shape": 35}),
    "rmsnorm_eps": (nn.RMSNorm, {"normalized_shape": (5, 7), "eps": 1e-3}),
    "layernorm": (nn.LayerNorm, {"normalized_shape": 35}),
    "layernorm_2d": (nn.LayerNorm, {"normalized_shape": [5, 7]}),
    "softmax": (nn.Softmax, {"dim": -1}),
    "loss": (nn.CrossEntropyLoss, {}),
    "loss_sum": (nn.CrossEntropyLoss, {"reduction": "sum", "ignore_index": 3}),
    "loss_none": (nn.CrossEntropyLoss, {"reduction": "none"}),
}
ONE_OF_EACH_CLASS = ("gelu", "swiglu", "rmsnorm_eps", "layernorm", "softmax", "loss")
every_module = pytest.mark.parametrize("name", MODULES)


def pair(name, device="cpu", dtype=torch.float32):
    """Ours and PyTorch's with equal random parameters."""
    module, arguments = MODULES[name]
    ours, theirs = (one(**arguments).to(device, dtype) for one in (module, standard(module)))
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def inputs(name, device="cpu", dtype=torch.float32):
    """Tuples of inputs of several shapes and strides."""
    x = 3 * torch.randn(6, 5, 7, device=device, dtype=dtype)
    if name.startswith("loss"):
        targets = torch.tensor([0, 3, -100 if name != "loss_sum" else 3, 6, 1, 3], device=device)
        return [(x[:, 0].contiguous(), targets), (x[:, 1], targets.flip(0)), (x[1:, :, 2], targets[1:] % 5)]
    if name in ("rmsnorm_eps", "layernorm_2d"):
        return [(x,), (x[:0],), (x[0],), (x.transpose(1, 2).reshape(2, 3, 7, 5).transpose(2, 3),)]
    flat = x.view(6, 35)
    if name in ("rmsnorm", "layernorm"):
        return [(flat,), (flat[:0],), (flat[1],), (flat.t().contiguous().t(),), (flat.view(2, 3, 35),), (flat[::2],)]
    last = flat.view(2, 3, 7, 5).to(memory_format=torch.channels_last)
    found = [flat, flat[:0], flat[1:, 3:], flat.t(), flat[0], last, flat[0, 0]]
    return [(one, one.flip(0) if one.dim() else -one) if name == "swiglu" else (one,) for one in found]


def leaves(given):
    return [x.detach().clone().requires_grad_() if x.is_floating_point() else x for x in given]


def outcome(module, given):
    """The result without a gradient, that with one, and the gradients of inputs and parameters."""
    with torch.no_grad():
        first = module(*given)
    mine = leaves(given)
    y = module(*mine)
    weights = torch.linspace(-1, 2, y.numel(), device=y.device).bfloat16().to(y.dtype).view(y.shape)  # in any dtype
    wanted = [x for x in mine if x.is_floating_point()] + list(module.parameters())
    return [first, y.detach(), *torch.autograd.grad(y, wanted, weights)]


def close(got, want, roundings=8):
    """Assert that tensors are equal but for roundings of the dtype, as those of two kernels for one formula."""
    for one, other in zip(got, want, strict=True):
        eps = roundings * torch.finfo(other.dtype).eps
        torch.testing.assert_close(one, other, rtol=eps, atol=eps, equal_nan=True)


@EVERYWHERE
@every_module
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_and_gradients(device, name, dtype):
    ours, theirs = pair(name, device, dtype)
    for given in inputs(name, device, dtype):
        close(outcome(ours, given), outcome(theirs, given), 8 if dtype != torch.float32 else 32)


@EVERYWHERE
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", ["loss", "loss_sum", "loss_none"])
def test_the_loss_of_short_floats_is_computed_in_float32(device, name, dtype):
    ours, theirs = pair(name)
    for logits, targets in inputs(name, device, dtype):
        found = outcome(ours, (logits, targets))
        want = outcome(theirs, (logits.float(), targets))
        for got, one in zip(found, want, strict=True):
            assert got.dtype == dtype
            torch.testing.assert_close(got.float(), one, rtol=2 * torch.finfo(dtype).eps, atol=1e-6)


@every_module
def test_it_looks_and_is_kept_as_pytorchs(name):
    ours, theirs = pair(name)
    assert repr(ours) == repr(theirs).replace("OfSwiGLU", "SwiGLU")
    if type(ours) is not nn.SwiGLU:
        assert isinstance(ours, type(theirs))
        assert inspect.signature(type(ours)) == inspect.signature(type(theirs))
    assert list(ours.state_dict()) == list(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    module, arguments = MODULES[name]
    for fresh, due in zip(module(**arguments).parameters(), standard(module)(**arguments).parameters(), strict=True):
        assert torch.equal(fresh, due)
    file = io.BytesIO()
    torch.save(torch.nn.Sequential(torch.nn.Linear(2, 2), ours), file)
    file.seek(0)
    given = inputs(name)[0]
    for again in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours)), torch.load(file, weights_only=False)[1]):
        assert type(again) is type(ours)
        torch.testing.assert_close(again(*given), theirs(*given))


# ---- which of the two computes ---------------------------------------------------------------------------------------


class Spy:
    """A kernel that notes its calls."""

    def __init__(self, kernel, called):
        self._kernel, self._called = kernel, called

    def __getattr__(self, name):
        return getattr(self._kernel, name)

    def __call__(self, *arrays, **scalars):
        self._called.append(self.name)
        return self._kernel(*arrays, **scalars)


@pytest.fixture
def called(monkeypatch):
    """The names of the kernels that were called."""
    names = []
    for form, kernel in activations.FORMS.items():
        monkeypatch.setitem(activations.FORMS, form, Spy(kernel, names))
    others = {
        norms: ("RMSNORM", "LAYERNORM"),
        activations: ("SWIGLU",),
        softmax: ("SOFTMAX",),
        loss: ("CROSS_ENTROPY",),
    }
    for place, name in ((place, name) for place, names in others.items() for name in names):
        monkeypatch.setattr(place, name, Spy(getattr(place, name), names))
    return names


@every_module
def test_the_kernel_computes(name, called):
    ours, _ = pair(name)
    with torch.no_grad():
        for given in inputs(name):
            ours(*given)
    few = name == "softmax"  # not of a scalar
    assert len(called) == len(inputs(name)) - few


@every_module
def test_a_kernel_without_a_gradient_computes_where_none_is_needed(name, called):
    ours, theirs = pair(name)
    given = inputs(name)[0]
    ours(*given)  # of parameters at most
    ours.requires_grad_(False)
    before = len(called)
    ours(*given)
    assert len(called) == before + 1
    for kernel in (*activations.FORMS.values(), activations.SWIGLU, norms.RMSNORM, norms.LAYERNORM, softmax.SOFTMAX):
        kernel.backward = None
    loss.CROSS_ENTROPY.backward = None
    mine = leaves(given)
    close([ours(*mine).detach()], [theirs(*given).detach()], 32)
    assert len(called) == before + 1
    with torch.no_grad():
        ours(*mine)
    assert len(called) == before + 2


X, TARGETS = torch.randn(4, 6), torch.tensor([0, 5, -100, 2])
TO_PYTORCH = {
    "rmsnorm without weight": (nn.RMSNorm, (6,), {"elementwise_affine": False}, (X,)),
    "rmsnorm of another dtype": (nn.RMSNorm, (6,), {}, (X.bfloat16(),)),
    "rmsnorm of no columns": (nn.RMSNorm, (0,), {}, (X[:, :0],)),
    "layernorm, eps": (nn.LayerNorm, (6,), {"eps": 1e-6}, (X,)),
    "layernorm without weight": (nn.LayerNorm, (6,), {"elementwise_affine": False}, (X,)),
    "layernorm without bias": (nn.LayerNorm, (6,), {"bias": False}, (X,)),
    "layernorm of float64": (nn.LayerNorm, (6,), {"dtype": torch.float64}, (X.double(),)),
    "softmax, dim": (nn.Softmax, (0,), {}, (X,)),
    "softmax of a scalar": (nn.Softmax, (-1,), {}, (X[0, 0],)),
    "softmax of no columns": (nn.Softmax, (-1,), {}, (X[:, :0],)),
    "softmax of float64": (nn.Softmax, (1,), {}, (X.double(),)),
    "weights of classes": (nn.CrossEntropyLoss, (torch.rand(6),), {}, (X, TARGETS)),
    "label_smoothing": (nn.CrossEntropyLoss, (), {"label_smoothing": 0.1}, (X, TARGETS)),
    "probabilities": (nn.CrossEntropyLoss, (), {}, (X, X.softmax(1))),
    "images": (nn.CrossEntropyLoss, (), {}, (X.view(2, 6, 2), TARGETS.view(2, 2))),
    "one row": (nn.CrossEntropyLoss, (), {}, (X[0], TARGETS[0])),
    "uint8": (nn.CrossEntropyLoss, (), {}, (X, TARGETS.clamp(0).byte())),
    "loss of float64": (nn.CrossEntropyLoss, (), {}, (X.double(), TARGETS)),
    "swiglu that broadcasts": (nn.SwiGLU, (), {}, (X, X[0])),
    "swiglu of two dtypes": (nn.SwiGLU, (), {}, (X, X.bfloat16())),
    "swiglu of float64": (nn.SwiGLU, (), {}, (X.double(), X.double())),
}


@pytest.mark.parametrize("case", TO_PYTORCH)
def test_what_a_kernel_does_not_take_goes_to_pytorch(case, called):
    module, arguments, options, given = TO_PYTORCH[case]
    with torch.no_grad():
        got, want = (one(*arguments, **options)(*given) for one in (module, standard(module)))
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)
    assert called == []


def test_errors_are_those_of_pytorch():
    with pytest.raises(RuntimeError, match="approximate argument must be either none or tanh"):
        nn.GELU("erf")(torch.randn(3))
    with pytest.raises(RuntimeError, match="not implemented"):
        nn.GELU()(torch.arange(3))
    for module in (nn.LayerNorm(5), nn.RMSNorm(5)):
        with pytest.raises(RuntimeError, match="expected input with shape"):
            module(X)
    with pytest.raises(ValueError, match="batch_size"):
        nn.CrossEntropyLoss()(X, TARGETS[:3])
    with pytest.raises(ValueError, match="not a valid value for reduction"):
        nn.CrossEntropyLoss(reduction="median")(X, TARGETS)
    with pytest.raises(IndexError, match="out of bounds"):
        nn.CrossEntropyLoss()(X, TARGETS + 1)
    with pytest.raises(RuntimeError, match="must match the size"):
        nn.SwiGLU()(X, X[:3])


@EVERYWHERE
def test_losses_of_rows_that_are_all_ignored_and_of_none(device):
    x, ignored = X.to(device), torch.full((4,), -100, device=device)
    for reduction in ("mean", "sum", "none"):
        ours, theirs = nn.CrossEntropyLoss(reduction=reduction), torch.nn.CrossEntropyLoss(reduction=reduction)
        for given in ((x, ignored), (x[:0], ignored[:0])):
            torch.testing.assert_close(ours(*given), theirs(*given), equal_nan=True)


def test_a_default_device_does_not_change_who_computes(called):
    with torch.device("cpu"):
        nn.GELU()(torch.randn(3))
        nn.GELU()(torch.nn.Parameter(torch.randn(3)))
    assert len(called) == 2


class Tagged(torch.Tensor):
    """A subclass as users write it."""


@EVERYWHERE
@every_module
def test_tensors_that_are_more_than_their_elements(device, name):
    ours, theirs = pair(name, device)
    x, *others = inputs(name, device)[0]
    got = ours(x.as_subclass(Tagged), *others)
    assert type(got) is Tagged
    torch.testing.assert_close(got.as_subclass(torch.Tensor), theirs(x, *others))
    mirrored = torch.complex(x, x).conj().imag
    assert mirrored.is_neg()
    torch.testing.assert_close(ours(mirrored, *others), theirs(mirrored, *others))


# ---- PyTorch's machinery ---------------------------------------------------------------------------------------------


@every_module
def test_shapes_without_elements_and_transforms(name):
    ours, theirs = (one.requires_grad_(False) for one in pair(name))
    given = inputs(name)[0]
    meta = copy.deepcopy(ours).to("meta")(*(x.to("meta") for x in given))
    assert meta.shape == theirs(*given).shape
    many = [torch.stack([x, x.flip(0)]) for x in given]
    torch.testing.assert_close(torch.func.vmap(ours)(*many), torch.func.vmap(theirs)(*many))
    slopes = (torch.func.grad(lambda x, *others, of=one: of(x, *others).sin().sum()) for one in (ours, theirs))
    torch.testing.assert_close(*(slope(*given) for slope in slopes))


@EVERYWHERE
@every_module
def test_a_traced_module(device, name):
    ours, theirs = (one.requires_grad_(False) for one in pair(name, device))
    first = inputs(name, device)[0]
    traced = torch.jit.trace(ours, first)
    assert ("cudalab::" in str(traced.inlined_graph)) == name.startswith("gelu")
    other = [x.flip(0) for x in first]
    torch.testing.assert_close(traced(*other), theirs(*other))


@EVERYWHERE
@every_module
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_autocast_gives_the_dtypes_that_pytorchs_modules_have(device, name, dtype):
    ours, theirs = pair(name, device)
    for kind in (torch.float32, dtype):
        given = [x.to(kind) if x.is_floating_point() else x for x in inputs(name, device)[0]]
        for fit in (torch.float32, kind):  # of the parameters
            mine, same = ours.to(fit), theirs.to(fit)
            with torch.autocast(device, dtype=dtype):
                got, want = mine(*given), same(*given)
            assert got.dtype == want.dtype
            torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2)


@EVERYWHERE
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in ONE_OF_EACH_CLASS else pytest.mark.sweep) for n in MODULES]
)
def test_in_a_compiled_model_and_under_autocast(device, name):
    torch._dynamo.reset()
    ours, theirs = pair(name, device)
    x, *others = inputs(name, device)[0]
    layer = torch.nn.Linear(x.shape[-1], x.shape[-1]).to(device)

    def program(module, x):
        return module(layer(x).view(x.shape), *others)

    compiled = torch.compile(program, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(ours, x), program(theirs, x), rtol=1e-4, atol=1e-5)
    parameters = [layer.weight, *ours.parameters()]
    slopes = torch.autograd.grad(compiled(ours, x).sin().sum(), parameters)
    same = torch.autograd.grad(program(theirs, x).sin().sum(), [layer.weight, *theirs.parameters()])
    torch.testing.assert_close(slopes, same, rtol=1e-4, atol=2e-4)  # sums of large terms
    assert torch._dynamo.explain(program)(ours, x).graph_break_count == 0
    for dtype in HALVES:
        with torch.autocast(device, dtype=dtype):
            torch.testing.assert_close(compiled(ours, x), program(theirs, x), rtol=2e-2, atol=2e-2)
    torch._dynamo.reset()
