"""Kernels in PyTorch programs: gradients, operators, torch.compile, autocast; on the CPU too where that can tell."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest

from cudalab.base.errors import CudalabError, InputError, SpecError
from cudalab.call.torch_operator import operator
from cudalab.kernels.add2d import add2d
from cudalab.kernels.gelu import gelu
from cudalab.kernels.gelu_backward import gelu_backward
from cudalab.kernels.gelu_tanh import gelu_tanh
from cudalab.kernels.plus_one import plus_one
from cudalab.spec import find

torch = pytest.importorskip("torch")
F = torch.nn.functional
EVERYWHERE = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])


def through_operator(x):
    return operator(gelu)(x)


FORMS = {"function": gelu, "operator": through_operator}
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


pytestmark = pytest.mark.usefixtures("one_torch_thread")


def pair(shape, device, dtype=torch.float32):
    """The same leaf twice."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(device, dtype)
    return x.clone().requires_grad_(), x.clone().requires_grad_()


def close(got, want):
    """Assert equality within a few roundings of the dtype, as two kernels for one formula may differ."""
    eps = torch.finfo(want.dtype).eps
    torch.testing.assert_close(got, want, rtol=8 * eps, atol=8 * eps)


# ---- gradients -------------------------------------------------------------------------------------------------------


@EVERYWHERE
@pytest.mark.parametrize(
    ("form", "approximate"), [(gelu, "none"), (through_operator, "none"), (gelu_tanh, "tanh")], ids=[*FORMS, "tanh"]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_gradients_are_those_of_pytorch(device, form, approximate, dtype):
    x, same = pair((3, 5, 77), device, dtype)
    y, want = form(x), F.gelu(same, approximate=approximate)
    close(y.detach(), want.detach())
    dy = torch.randn_like(y)
    y.backward(dy)
    want.backward(dy)
    assert x.grad.dtype == dtype
    close(x.grad, same.grad)


@EVERYWHERE
@every_form
def test_a_gradient_that_is_no_plain_array(device, form):
    """Three gradients: expanded, as that of a sum; a transposed view; a negated view."""
    weights = torch.randn(2, 4, device=device)
    for last in (torch.sum, lambda y: (y.t() * weights).sum(), lambda y: torch.view_as_complex(y).conj().imag.sum()):
        x, same = pair((4, 2), device)
        last(form(x)).backward()
        last(F.gelu(same)).backward()
        close(x.grad, same.grad)


@EVERYWHERE
@every_form
def test_second_derivatives_are_those_of_pytorch(device, form):
    x, same = pair((33,), device)
    for function, at in ((form, x), (F.gelu, same)):
        (slope,) = torch.autograd.grad(function(at).pow(2).sum(), at, create_graph=True)
        slope.pow(2).sum().backward()
    torch.testing.assert_close(x.grad, same.grad, rtol=1e-4, atol=1e-5)


@EVERYWHERE
def test_gradients_of_several_inputs_one_of_which_has_none(device):
    def backward(dy, a, b):
        return dy * 2, None

    odd = replace(add2d, backward=backward)
    a, b = pair((3, 4), device)
    operator(odd)(a, b).sum().backward()
    assert torch.equal(a.grad, torch.full_like(a, 2))
    assert b.grad is None
    with pytest.raises(SpecError, match="backward returns 1 gradients, expected one for each of 2 inputs"):
        operator(replace(add2d, backward=lambda dy, a, b: dy))(a, b).sum().backward()


@EVERYWHERE
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("called", [operator, lambda kernel: lambda *x: kernel._calls.operator.differentiable(x, {})])
def test_gradients_where_one_input_comes_of_another(device, called, create_graph):
    """Each path counts once: autograd adds the path through the other input, so a gradient holds its own path only."""

    def form(a, b):
        return a * b * b

    own = replace(add2d, torch=form, torch_native=None, backward=lambda dy, a, b: (dy * b * b, dy * 2 * a * b))
    for of in (lambda x: (x, x), lambda x: (x, x * x), lambda x: (x.sin(), x)):
        x, same = pair((3, 4), device)
        (slope,) = torch.autograd.grad(called(own)(*of(x)).sum(), x, create_graph=create_graph)
        (want,) = torch.autograd.grad(form(*of(same)).sum(), same, create_graph=True)
        close(slope, want)
        if create_graph:
            (curvature,), (due,) = (torch.autograd.grad(s.sum(), at) for s, at in ((slope, x), (want, same)))
            torch.testing.assert_close(curvature, due, rtol=1e-4, atol=1e-5)


@EVERYWHERE
def test_a_kernel_without_backward_says_so(device):
    with pytest.raises(InputError, match="is not differentiable; pass"):
        plus_one(torch.ones(3, device=device, requires_grad=True))
    x = torch.ones(3, device=device, requires_grad=True)
    with pytest.raises(InputError, match="is not differentiable"):
        torch.autograd.grad(gelu_backward(x, x), x)


@EVERYWHERE
def test_in_a_thread_that_has_done_nothing_yet(device):
    x, same = pair((257,), device)
    gelu(x.detach())
    thread = threading.Thread(target=lambda: gelu(x).sum().backward())
    thread.start()
    thread.join()
    F.gelu(same).sum().backward()
    close(x.grad, same.grad)


@EVERYWHERE
def test_gradients_are_not_kept_where_none_are_wanted(device):
    x, _ = pair((8,), device)
    with torch.no_grad():
        assert not gelu(x).requires_grad
    with torch.inference_mode():
        assert gelu(x).is_inference()
    assert gelu(x).requires_grad
    assert not gelu(x.detach()).requires_grad


@EVERYWHERE
def test_a_write_to_what_autograd_has_kept_is_noticed(device):
    x, _ = pair((8,), device)
    kept = x * 1
    product = (kept * kept).sum()
    for _ in range(2):
        gelu(x.detach(), out=kept.detach())  # the second is quick, on a GPU
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


# ---- the operator ----------------------------------------------------------------------------------------------------

OPCHECKED = {
    "gelu": (gelu, lambda: [torch.randn(7, 5, requires_grad=True)]),
    "gelu_tanh": (gelu_tanh, lambda: [torch.randn(7, 5, requires_grad=True)]),
    "gelu_backward": (gelu_backward, lambda: [torch.randn(7, 5), torch.randn(7, 5)]),
    "add2d": (add2d, lambda: [torch.randn(7, 5), torch.randn(7, 5)]),
    "strided": (gelu, lambda: [torch.randn(5, 3).t().requires_grad_()]),
    "integer": (plus_one, lambda: [torch.arange(6, dtype=torch.int32)]),
    "empty": (gelu, lambda: [torch.empty(0, 3)]),
}


@EVERYWHERE
@pytest.mark.parametrize("case", OPCHECKED)
def test_opcheck(device, case):
    kernel, inputs = OPCHECKED[case]
    with torch.device(device):
        given = tuple(inputs())
    found = torch.library.opcheck(operator(kernel), given)
    assert set(found.values()) == {"SUCCESS"}
    assert len(found) == 4


def spec_in(folder, name="gelu"):
    """A copy of the lab's gelu, as a user's own pair of files."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(Path(gelu.file).read_text())
    (folder / f"{name}.cu").write_text(gelu.cu.read_text())
    shutil.copytree(gelu.cu.parent / "common", folder / "common", dirs_exist_ok=True)
    return str(folder / f"{name}.py")


def test_every_kernel_has_an_operator_of_its_own(tmp_path):
    own = operator(gelu)
    assert own is torch.ops.cudalab.gelu.default
    assert own is operator(gelu)
    first, second = (find.kernel(spec_in(tmp_path / name)) for name in ("a", "b"))
    digits = find.kernel(spec_in(tmp_path, "3_d"))
    names = [operator(kernel)._schema.name for kernel in (gelu, first, second, digits, replace(first))]
    assert len(set(names)) == 5
    assert names[-1] == names[1] + "_2"  # the same file, loaded again
    assert all(name.startswith("cudalab::gelu_") for name in names[1:3])
    assert names[3].startswith("cudalab::_3_d_")
    x = torch.randn(9)
    torch.testing.assert_close(operator(digits)(x), F.gelu(x))


def test_names_that_a_schema_cannot_have():
    kernel = replace(
        gelu, reference=lambda λ: λ, entries={"gelu_vec": lambda λ, y: None}, called=None, backward=lambda dy, λ: dy
    )
    x = torch.randn(3)
    assert torch.equal(operator(kernel)(x), F.gelu(x))


def test_an_operator_refuses_a_dtype_that_the_kernel_has_not():
    with pytest.raises(InputError, match="gelu has no float64; convert to one of"):
        operator(gelu)(torch.randn(3, dtype=torch.float64))
    with pytest.raises(InputError, match="gelu has no float64"):
        operator(gelu)(torch.empty(3, dtype=torch.float64, device="meta"))


# ---- torch.compile ---------------------------------------------------------------------------------------------------


@pytest.fixture
def compiler():
    torch._dynamo.reset()
    yield torch.compile
    torch._dynamo.reset()


def program(x):
    return gelu(x * 2) + gelu(x)


def plain_program(x):
    return F.gelu(x * 2) + F.gelu(x)


@pytest.mark.parametrize(
    ("device", "backend"),
    [
        ("cpu", "aot_eager"),
        pytest.param("cuda", "aot_eager", marks=pytest.mark.gpu),
        pytest.param("cuda", "inductor", marks=[pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]),
    ],
)
def test_compile_makes_one_graph_forward_and_backward(device, backend, compiler):
    compiled = compiler(program, fullgraph=True, backend=backend)
    x, same = pair((64, 65), device)
    y, want = compiled(x), plain_program(same)
    if backend == "aot_eager":
        close(y.detach(), want.detach())
    torch.testing.assert_close(y, want, rtol=1e-5, atol=1e-6)
    y.sum().backward()
    want.sum().backward()
    torch.testing.assert_close(x.grad, same.grad, rtol=1e-5, atol=1e-6)
    found = torch._dynamo.explain(program)(x)
    assert (found.graph_count, found.graph_break_count) == (1, 0)
    assert "cudalab.gelu" in str(found.graphs[0].graph)


@EVERYWHERE
def test_compile_for_shapes_that_change(device, compiler):
    sizes = []

    def counting(graph, examples):
        sizes.append(len(graph.graph.nodes))
        return graph

    compiled = compiler(program, fullgraph=True, dynamic=True, backend=counting)
    for n in (5, 6, 17):
        x = torch.randn(n, 4, device=device)
        close(compiled(x), plain_program(x))
    assert len(sizes) == 1


@EVERYWHERE
def test_compile_with_out(device, compiler):
    def written(x, out):
        return gelu(x, out=out)

    x, out = torch.randn(9, device=device), torch.zeros(9, device=device)
    assert compiler(written, fullgraph=True, backend="aot_eager")(x, out) is out
    close(out, F.gelu(x))


class Act(torch.nn.Module):
    """A module that holds a kernel as its user writes it."""

    def __init__(self):
        super().__init__()
        self.act = gelu

    def forward(self, x):
        return self.act(x)


@pytest.mark.parametrize("made", ["a module", "its copy", "a user's own kernel", "the function itself"])
def test_what_is_compiled_in_one_graph(tmp_path, compiler, made):
    x, called = torch.randn(3, 4), {
        "a module": Act, "its copy": lambda: deepcopy(Act()), "the function itself": lambda: gelu,
        "a user's own kernel": lambda: find.kernel(spec_in(tmp_path)),  # which has not been called
    }[made]()  # fmt: skip
    close(compiler(called, fullgraph=True, backend="aot_eager")(x), F.gelu(x))


def test_compile_beside_what_cannot_be_compiled(compiler):
    x, graphs = torch.randn(3, 4), []

    def parts(x):
        y = gelu(x)
        torch._dynamo.graph_break()
        return gelu(y)

    def kept(graph, examples):
        graphs.append(str(graph.graph))
        return graph

    close(compiler(parts, backend=kept)(x), F.gelu(F.gelu(x)))
    assert len(graphs) == 2
    assert all("cudalab.gelu" in graph for graph in graphs)


@pytest.mark.sweep
@pytest.mark.parametrize("imported", ["cudalab.kernels.gelu", "cudalab.nn"])
def test_compile_in_a_process_that_has_done_nothing_yet(imported):
    """torch imports modules of its own while it compiles."""
    lines = (
        f"import torch, {imported}",
        "from cudalab.kernels.gelu import gelu",
        "act = cudalab.nn.GELU() if hasattr(cudalab, 'nn') else gelu",
        "torch.compile(lambda x: act(x) * 2, fullgraph=True, backend='aot_eager')(torch.ones(3))",
    )
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True)


def test_export_has_the_operator():
    exported = torch.export.export(Act(), (torch.randn(3),))
    assert "cudalab.gelu" in str(exported.graph)
    x = torch.randn(3)
    close(exported.module()(x), F.gelu(x))


# ---- what records or transforms a program ----------------------------------------------------------------------------


@EVERYWHERE
def test_what_records_a_program_sees_the_operator(device):
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    x = torch.randn(5, device=device)
    gelu(x)
    with Watch():
        close(gelu(x), F.gelu(x))
    assert "cudalab.gelu.default" in seen
    assert "cudalab.gelu" in str(make_fx(lambda x: gelu(x) + 1)(x).graph)
    traced = torch.jit.trace(Act(), x)
    assert "cudalab::gelu" in str(traced.inlined_graph)
    other = torch.randn(5, device=device)
    close(traced(other), F.gelu(other))


@EVERYWHERE
def test_transforms_get_what_pytorch_gives(device):
    x, direction = torch.randn(4, 3, device=device), torch.randn(4, 3, device=device)
    gelu(x)
    close(torch.func.vmap(gelu)(x), F.gelu(x))
    slope, value = torch.func.grad_and_value(lambda x: gelu(x).sum())(x)
    want, want_value = torch.func.grad_and_value(lambda x: F.gelu(x).sum())(x)
    close(slope, want)
    close(value, want_value)
    for one, other in zip(
        torch.func.jvp(gelu, (x,), (direction,)), torch.func.jvp(F.gelu, (x,), (direction,)), strict=True
    ):
        close(one, other)
    from torch.autograd import forward_ad

    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(gelu(forward_ad.make_dual(x, direction))).tangent
    close(tangent, torch.func.jvp(F.gelu, (x,), (direction,))[1])


@EVERYWHERE
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_gives_the_dtypes_that_pytorchs_gelu_has(device, dtype):
    layer = torch.nn.Linear(8, 16).to(device)
    x = torch.randn(4, 8, device=device)
    with torch.autocast(device, dtype=dtype):
        hidden = layer(x)
        assert hidden.dtype == dtype
        for form in (gelu, through_operator):
            for given in (hidden, x, x.half(), x.bfloat16()):
                assert form(given.detach()).dtype == F.gelu(given).dtype
            form(hidden).float().sum().backward(retain_graph=True)
    assert layer.weight.grad.dtype == torch.float32


# ---- on a GPU --------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:.*AccumulateGrad")  # was on another stream, in the warm-up
def test_a_graph_of_forward_and_backward():
    x, same = pair((64, 65), "cuda")
    dy = torch.randn(64, 65, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            gelu(x).backward(dy)
    torch.cuda.current_stream().wait_stream(side)
    x.grad = None
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = gelu(x)
        y.backward(dy)
    for _ in range(2):
        with torch.no_grad():
            x.normal_()
            same.copy_(x)
        graph.replay()
        want = F.gelu(same)
        same.grad = None
        want.backward(dy)
        close(y.detach(), want.detach())
        close(x.grad, same.grad)


@pytest.mark.gpu
def test_a_shape_that_is_first_seen_during_a_capture():
    gelu(torch.randn(128, device="cuda"))  # compiled and loaded
    x = torch.randn(333, device="cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = gelu(x)
    graph.replay()
    close(y, F.gelu(x))


def late(x, value):
    """Fill `x` on the current stream, but not before some 25 ms have passed."""
    torch.cuda._sleep(50_000_000)
    x.fill_(value)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:.*AccumulateGrad")
@pytest.mark.parametrize("way", ["function", "out", "operator", "backward"])
def test_a_repeated_call_is_ordered_on_the_current_stream(way):
    x, stream = torch.zeros(1 << 16, device="cuda"), torch.cuda.Stream()
    out = torch.empty_like(x)
    leaf = torch.full_like(x, 3.0).requires_grad_()

    def call():
        if way == "backward":
            leaf.grad = None
            gelu(leaf).backward(x)
            return leaf.grad
        return {"function": gelu, "operator": through_operator, "out": lambda x: gelu(x, out=out)}[way](x)

    call()
    torch.cuda.synchronize()
    want = {"backward": 3.0 * 1.0119}.get(way, 2.99595)
    with torch.cuda.stream(stream):
        late(x, 3.0)
        y = call()
        seen = y + 0
        late(x, 0.0)  # a launch on another stream would read one of the zeros
    stream.synchronize()
    assert seen.min().item() == seen.max().item() == pytest.approx(want, rel=1e-3)


@pytest.mark.gpu
def test_calls_leave_no_memory_behind():
    x = torch.randn(10_000, device="cuda", requires_grad=True)
    dy = torch.ones_like(x)

    def work():
        for _ in range(50):
            with torch.no_grad():
                gelu(x)
            gelu(x).backward(dy)
            x.grad = None

    work()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    work()
    torch.cuda.synchronize()
    assert (torch.cuda.memory_allocated(), torch.cuda.memory_reserved()) == before


@pytest.mark.gpu
def test_a_quick_call_refuses_what_a_first_one_refuses():
    x = torch.randn(8, 8, device="cuda")
    out = torch.empty_like(x)
    flat = torch.randn(65, device="cuda")
    for _ in range(2):
        gelu(x), gelu(x, out=out), gelu(flat[:64]), gelu(flat[:64], out=flat[:64])
    for call in (
        lambda: gelu(x.t()),
        lambda: gelu(x, out=out.t()),
        lambda: gelu(x, out=out[:4]),
        lambda: gelu(torch._neg_view(x)),
        lambda: gelu(torch._efficientzerotensor((8, 8), device="cuda")),
        lambda: gelu(x.to_sparse()),
        lambda: gelu(x, out=out.clone().requires_grad_()),
        lambda: gelu(flat[1:], out=flat[:64]),
        lambda: gelu(flat[:64], out=flat[1:]),
        lambda: gelu(x.cpu(), out=out),
        lambda: gelu(x, out=out.cpu()),
        lambda: gelu(x, x),
    ):
        with pytest.raises(CudalabError):
            call()
    assert torch.equal(gelu(x), out)


@pytest.mark.gpu
def test_on_the_second_gpu_while_the_first_is_current():
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one GPU")
    for _ in range(2):
        x, same = pair((100,), "cuda:1")
        gelu(x).sum().backward()
        F.gelu(same).sum().backward()
        close(x.grad, same.grad)
        y = gelu(x.detach().to("cuda:0"))
        assert y.device.index == 0
        close(y, F.gelu(same.detach()).to("cuda:0"))


@pytest.mark.gpu
def test_cupy_calls_are_ordered_on_its_current_stream():
    cupy = pytest.importorskip("cupy")
    x, busy = cupy.zeros(1 << 16, "float32"), cupy.ones((4096, 4096), "float32")
    gelu(x)
    busy @ busy
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        for _ in range(20):
            busy @ busy
        x.fill(3)
        y = gelu(x)
        x.fill(0)
        stream.synchronize()
    assert float(y.min()) == float(y.max()) == pytest.approx(2.99595, rel=1e-5)
    pool = cupy.get_default_memory_pool()  # with an arena for each stream; two outputs live at once
    before, y = gelu(x), gelu(x)
    del before
    used = pool.total_bytes()
    for _ in range(50):
        y = gelu(x)
    assert pool.total_bytes() == used
