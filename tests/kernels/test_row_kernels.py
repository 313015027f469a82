"""Kernels whose threads share the rows of a matrix: special values, and launches that large arrays take."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from entries import judged, outputs

from cudalab.base.errors import InputError
from cudalab.call.libraries import as_tuple
from cudalab.spec import find
from cudalab.spec.dtype import dtype

KERNELS = find.kernels()
BOTH = pytest.mark.parametrize("kind", ["float32", pytest.param("bfloat16", marks=pytest.mark.sweep)])
TEAMS = ((2, 1, 32), (1, 1, 32), (2, 4, 16), (5, 1, 64), (2, 16, 2), (3, 32, 1))  # grid and block, of whole warps
CLUSTERED = [(name, entry) for name, kernel in KERNELS.items() for entry in kernel.entries if "_cluster" in entry]


@pytest.mark.sweep
@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize(("name", "entry"), CLUSTERED)
def test_clusters_of_any_size(name, entry, kind):
    """Up to 8 blocks of one or several warps; parts of a row that are held, that are not, and that are empty."""
    kernel, of = KERNELS[name], dtype(kind)
    sizes = ((1, 8, 32), (129, 8, 32), (9000, 8, 32), (2056, 2, 64), (40008, 4, 256), (4104, 8, 64))
    for cols, blocks, threads in sizes:
        arrays = kernel.make((3, cols), of)

        def change(launch, blocks=blocks, threads=threads):
            return replace(launch, grid=(blocks, 2, 2), block=(threads,), cluster=(blocks,))

        judged(kernel, entry, of, arrays, change)


def test_the_gradient_of_softmax_is_a_kernel():
    torch = pytest.importorskip("torch")
    x, dy = torch.randn(5, 40, generator=torch.manual_seed(0), requires_grad=True), torch.randn(5, 40)
    y = x.softmax(1)
    y.backward(dy)
    torch.testing.assert_close(KERNELS["softmax"].backward(dy=dy, y=y.detach()), x.grad)


def cross_entropy_gradients(way, ignored, dtype):
    """Of loss and log-sum-exp: the kernel's, and PyTorch's in float32. Every other row has none of the latter."""
    import torch

    from cudalab.call.torch_operator import operator
    from cudalab.kernels.cross_entropy import cross_entropy as kernel

    F, made = torch.nn.functional, torch.manual_seed(0)
    logits, targets = torch.randn(9, 40, generator=made).to(dtype), torch.randint(40, (9,), generator=made)
    targets[1::3] = ignored
    weights, others = torch.randn(9, generator=made), torch.randn(9, generator=made)
    others[::2] = 0
    ways = {
        "spec": lambda x: kernel._calls.operator.differentiable((x, targets), {"ignore_index": ignored}),
        "operator": lambda x: operator(kernel)(x, targets, ignored),
        "compiled": torch.compile(
            lambda x: kernel(x, targets, ignore_index=ignored), fullgraph=True, backend="aot_eager"
        ),
        "torch": lambda x: (F.cross_entropy(x, targets, ignore_index=ignored, reduction="none"), x.logsumexp(1)),
    }
    found = []
    for x, form in ((logits.clone(), ways[way]), (logits.float(), ways["torch"])):
        loss, lse = form(x.requires_grad_())
        total = (loss * weights + lse * others).sum()
        once, again = (torch.autograd.grad(total, x, retain_graph=True)[0] for _ in range(2))
        assert torch.equal(once, again)
        found.append(once)
    return found


@pytest.mark.parametrize("ignored", [7, 0, -100])
@pytest.mark.parametrize("way", ["spec", "operator"])
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_the_gradient_of_cross_entropy_is_that_of_pytorch(way, ignored, kind):
    torch = pytest.importorskip("torch")
    got, want = cross_entropy_gradients(way, ignored, getattr(torch, kind))
    eps = torch.finfo(got.dtype).eps
    torch.testing.assert_close(got.float(), want, rtol=2 * eps, atol=4 * eps)


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    """The gradient of cross-entropy is the call that writes over its logits; here the host's compiler runs it."""
    pytest.importorskip("torch")
    from cudalab.kernels import cross_entropy_backward as module

    kernel, calls = module.cross_entropy_backward, []

    def through_kernel(*arrays, ignore_index):
        calls.append(ignore_index)
        return kernel(*arrays, ignore_index=ignore_index)

    monkeypatch.setattr(module, "cross_entropy_backward", replace(kernel, torch_native=through_kernel))
    yield
    assert calls


@pytest.mark.sweep
@pytest.mark.parametrize("way", ["spec", "operator", pytest.param("compiled", marks=pytest.mark.sweep)])
def test_the_gradient_of_cross_entropy_is_a_kernel(way, as_on_a_gpu):
    import torch

    got, want = cross_entropy_gradients(way, 7, torch.float32)
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)


def test_rows_without_a_gradient_and_targets_that_are_no_class(as_on_a_gpu):
    """An ignored row is 0 whatever it holds; a target that is no class makes its row NaN."""
    import torch

    from cudalab.kernels.cross_entropy import cross_entropy

    logits, targets = torch.randn(5, 5), torch.tensor([1, 2, 2, 5, -1])
    logits[1], logits[2, 0] = torch.nan, torch.inf
    lse = logits.logsumexp(1)
    gradient, none = cross_entropy.backward(torch.ones(5), torch.zeros(5), logits, targets, lse, 2)
    assert none is None
    assert (gradient[0] != 0).all()
    assert (gradient[1:3] == 0).all()
    assert gradient[3:].isnan().all()


@pytest.mark.sweep
@BOTH
def test_cross_entropy_of_special_rows(kind):
    """Masked, infinite, huge and equal logits, in packs and one by one."""
    kernel, of = KERNELS["cross_entropy"], dtype(kind)
    big = 0.9 * float(np.finfo(np.float32).max)
    for cols in (65, 1032, 2100):
        logits = np.random.default_rng(0).standard_normal((10, cols)).astype(of.numpy)
        logits[0], logits[1, -1], logits[2, 9], logits[3, 1:-1] = -np.inf, np.nan, np.inf, -np.inf
        logits[4], logits[5], logits[6, ::2], logits[7], logits[8, 20] = big, -big, -np.inf, 0, 1000
        targets = np.array([0, 1, 2, 0, cols - 1, 3, 1, 4, 20, 21])
        wide = logits.astype(np.float64)
        top = wide.max(1, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            lse = np.log(np.exp(wide - np.where(np.isinf(top), 0, top)).sum(1)) + top[:, 0]
            loss = lse - wide[np.arange(10), targets]
        loss[2] = lse[2] = np.nan
        loss[4:6] = np.log(cols)  # in float64 the sum is big
        for entry in kernel.entries:
            got = outputs(kernel, entry, of, {"logits": logits, "targets": targets})
            np.testing.assert_allclose(got["loss"], loss, rtol=1e-6, atol=1e-6, err_msg=f"{entry}, {cols} columns")
            np.testing.assert_allclose(got["lse"], lse, rtol=1e-6, atol=1e-6, err_msg=f"{entry}, {cols} columns")


def test_targets_of_cross_entropy():
    """One that is no class gives NaN and reads nothing beside the row; any number may be the ignored one."""
    kernel, of = KERNELS["cross_entropy"], dtype("float32")
    logits = kernel.make((6, 40), of)["logits"]
    targets = np.array([39, 40, -1, 7, -(2**40), 2**40])
    right = np.log(np.exp(logits.astype(float)).sum(1)) - logits[np.arange(6), np.clip(targets, 0, 39)]
    for entry in kernel.entries:
        for ignored in (7, 2**40, -100):
            got = outputs(kernel, entry, of, {"logits": logits, "targets": targets}, ignore_index=ignored)["loss"]
            want = np.where((targets < 0) | (targets >= 40), np.nan, right)
            want[targets == ignored] = 0
            np.testing.assert_allclose(got, want, rtol=1e-5, err_msg=f"{entry}, {ignored} ignored")


@pytest.mark.sweep
@BOTH
def test_the_gradient_of_cross_entropy_in_special_rows(kind):
    """Ignored rows are 0 whatever they hold; NaN and a target that is no class give NaN; masked logits give 0."""
    kernel, of = KERNELS["cross_entropy_backward"], dtype(kind)
    for cols in (65, 1032):
        arrays = kernel.make((7, cols), of)
        logits, targets = arrays["logits"], arrays["targets"]
        targets[:] = 9, 3, 3, cols, -1, 2**40, 4
        logits[1], logits[2, 1], arrays["lse"][2] = np.nan, np.nan, np.nan
        logits[6, ::3] = -np.inf
        for entry in kernel.entries:
            got = outputs(kernel, entry, of, arrays)["logits"].astype(float)
            assert np.isnan(got[1:6]).all(), entry
            assert (got[6, ::3] == 0).all() and np.isfinite(got[6]).all(), entry
            assert (outputs(kernel, entry, of, arrays, ignore_index=3)["logits"][1:3] == 0).all(), entry
            single = outputs(kernel, entry, of, arrays, ignore_index=2**40)["logits"].astype(float)
            assert (single[5] == 0).all() and np.isnan(single[[1, 2, 3, 4]]).all(), entry
            np.testing.assert_array_equal(single[[0, 6]], got[[0, 6]])


@pytest.mark.parametrize("name", ["softmax", "rmsnorm", "layernorm", "swiglu", "rope", "rope_interleaved"])
def test_backward_is_the_gradient_of_the_torch_form(name):
    """What a call on a GPU takes; on the CPU PyTorch differentiates the torch form."""
    torch = pytest.importorskip("torch")
    kernel = KERNELS[name]
    rope = name.startswith("rope")
    arrays = kernel.make((5, 3, 4) if rope else (5, 33), dtype("float32"))
    inputs = {n: torch.from_numpy(x).requires_grad_() for n, x in arrays.items()}
    scalars = {n: one.value for n, one in kernel.scalars.items()}
    y = kernel.torch(*inputs.values(), **scalars)
    dy = torch.randn(y.shape, generator=torch.Generator().manual_seed(1))
    want = torch.autograd.grad(y, tuple(inputs.values()), dy)
    known = {"dy": dy, "y": y.detach(), **{n: x.detach() for n, x in inputs.items()}, **scalars}
    got = kernel.backward(**{n: known[n] for n in kernel.named_by(kernel.backward)})
    for one, other in list(zip(as_tuple(got), want, strict=True))[: 1 if rope else None]:
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5, equal_nan=True)
    if rope:
        with pytest.raises(InputError, match=r"rope has no gradient of its tables; pass cos.detach\(\)"):
            kernel.backward(dy, inputs["cos"], inputs["sin"])


@pytest.mark.sweep
@pytest.mark.parametrize(("cols", "form", "teams"), [(40, "vec", TEAMS), (33, "vec", TEAMS), (200, "two", TEAMS[:1])])
@pytest.mark.parametrize("name", ["rmsnorm_backward", "layernorm_backward"])
def test_teams_of_any_number_and_size_add_the_same_columns(name, cols, form, teams):
    """A team has several rows, one or none, and a row fits its registers or does not."""
    kernel, of = KERNELS[name], dtype("float32")
    arrays = kernel.make((7, cols), of)
    for grid, together, threads in teams:
        rows = grid * together // max(32 // threads, 1)

        def change(launch, grid=grid, block=(threads, together), rows=rows):
            if launch.entry.endswith("_add"):
                return replace(launch, args=(*launch.args[:-2], np.int32(rows), launch.args[-1]))
            return replace(launch, grid=(grid,), block=block, entry=f"{name}_{form}")

        partial = (*((2,) if name == "layernorm_backward" else ()), rows, cols)
        own = replace(kernel, shapes={**kernel.shapes, "partial": lambda x, partial=partial: partial})
        judged(own, f"{name}_vec", of, arrays, change)


@pytest.mark.parametrize("name", ["rope", "rope_interleaved"])
def test_heads_of_a_token_share_a_grid_of_any_depth(name):
    """Whole packs and single pairs; the last blocks have heads and tokens that do not exist."""
    kernel, of = KERNELS[name], dtype("float32")
    for half in (8, 5):
        judged(
            kernel, f"{name}_vec", of, kernel.make((3, 7, half), of),
            lambda launch: replace(launch, grid=(2, 2, 2), block=(2, 2, 2)),
        )  # fmt: skip
