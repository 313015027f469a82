"""torch tensors of every kind given to the kernels' functions: the torch form's answer, or a clear error."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fuzzing import KERNELS, hard, judged, more, said_clearly, shapes
from hypothesis import example, given
from hypothesis import strategies as st

from cudalab.base.errors import CudalabError
from cudalab.device.arrays import as_plain
from cudalab.kernels.gelu import gelu
from cudalab.spec.dtype import dtype


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def torch_views(torch):
    return {
        "as it is": lambda t: t,
        "requires_grad": lambda t: t.float().requires_grad_(),
        "parameter": lambda t: torch.nn.Parameter(t.float()),
        "detached": lambda t: t.float().requires_grad_().detach(),
        "transposed": lambda t: t.transpose(0, -1) if t.dim() else t,
        "expanded": lambda t: t.expand(2, *t.shape),
        "every second": lambda t: t.reshape(-1)[::2],
        "a part": lambda t: t.reshape(-1)[1:],
        "view": lambda t: t.view(-1),
        "0-d": lambda t: t.reshape(-1)[0] if t.numel() else t,
        "bfloat16": lambda t: t.to(torch.bfloat16),
        "float16": lambda t: t.to(torch.float16),
        "float64": lambda t: t.double(),
        "complex": lambda t: t.to(torch.complex64),
        "bool": lambda t: t.bool(),
        "negative bit": lambda t: torch._neg_view(t),
        "imaginary": lambda t: torch.complex(t.float(), t.float()).conj().imag,
        "meta": lambda t: t.to("meta"),
        "sparse": lambda t: t.float().to_sparse() if t.dim() else t,
        "zero tensor": lambda t: torch._efficientzerotensor(t.shape),
        "mkldnn": lambda t: t.float().to_mkldnn() if t.dim() and t.numel() else t,
        "many dimensions": lambda t: t.reshape(-1)[:1].reshape([1] * 70) if t.numel() else t,
        "channels last": lambda t: torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "subclass": lambda t: t.as_subclass(type("Mine", (torch.Tensor,), {})),
        "inference": lambda t: _inference(torch, t),
        "dtype": lambda t: t.dtype,
        "size": lambda t: t.shape,
        "device": lambda t: t.device,
        "class": lambda t: torch.Tensor,
        "module": lambda t: torch.nn.GELU(),
        "storage": lambda t: t.untyped_storage(),
        "quantized": lambda t: torch.ones(3, dtype=torch.uint8).to(torch.float8_e4m3fn),
    }


def _inference(torch, tensor):
    with torch.inference_mode():
        return tensor.clone()


TORCH = list(torch_views(None))


@more(4)
@given(st.sampled_from(list(KERNELS)), shapes.filter(lambda shape: len(shape) < 9),
       st.sampled_from(["float32", "float16", "int32", "float64", "uint8", "int64"]), st.sampled_from(TORCH),
       st.booleans(), st.integers(0, 2**32))  # fmt: skip
@example("gelu", (4,), "float32", "dtype", False, 0)
@example("gelu", (4,), "float32", "size", False, 0)
@example("gelu", (4,), "float32", "negative bit", False, 0)
@example("gelu", (4,), "float32", "zero tensor", False, 0)
@example("gelu", (4,), "float32", "mkldnn", False, 0)
@example("gelu", (4,), "float32", "many dimensions", False, 0)
@example("gelu", (4,), "float32", "storage", False, 0)
def test_torch_tensors(torch, name, shape, kind, view, with_out, seed):
    kernel = KERNELS[name]
    shape = (*shape, 3, 5)[: kernel.rank] if kernel.rank else shape
    base = torch.from_numpy(hard(shape, dtype(kind), seed))
    was = base.clone()
    x = torch_views(torch)[view](base)
    arrays = [x] * len(kernel.input_names)
    try:
        out = torch.empty_like(x).detach() if with_out and isinstance(x, torch.Tensor) else None
    except (RuntimeError, TypeError):
        out = None
    try:
        got = kernel(*arrays, out=out)
    except CudalabError as error:
        said_clearly(error)
        assert view not in ("as it is", "detached", "view", "bfloat16", "inference") or (
            as_plain(x).dtype.name not in kernel.dtypes or (kernel.rank and x.dim() != kernel.rank)
        ), error
    else:
        assert isinstance(got, torch.Tensor)
        assert out is None or got is out
        form = kernel.torch_native or kernel.torch  # which is what a call on the CPU takes
        assert torch.equal(got.detach().isnan(), form(*arrays).isnan())
        assert torch.equal(got.detach().nan_to_num(), form(*arrays).detach().nan_to_num())
    assert base.detach().numpy().tobytes() == was.numpy().tobytes()


def test_a_parameter_within_no_grad(torch):
    x = torch.nn.Parameter(torch.linspace(-3, 3, 100))
    as_pytorch = replace(gelu, budgets=gelu.peers)  # on the CPU its F.gelu computes the answer
    with torch.no_grad():
        judged(as_pytorch, as_plain(gelu(x).detach()), {"x": x.detach().numpy()})
