"""Liger-Kernel and QuACK: which kernels of the lab they have, what they refuse, and how they are called."""

from __future__ import annotations

import ast
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import host_arrays
import numpy as np
import pytest

from cudalab.backends import _torch, liger, quack
from cudalab.base.errors import Unavailable
from cudalab.spec import find
from cudalab.spec.dtype import dtype

BOTH = pytest.mark.parametrize("backend", [liger, quack])


@BOTH
def test_kernels_of_the_lab_have_a_row_and_those_of_their_names_elsewhere_have_none(backend, tmp_path):
    assert backend.variants(find.kernel("softmax")) == backend.variants(find.kernel("layernorm")) == ("",)
    assert backend.variants(find.kernel("gelu")) == ()
    mine = replace(find.kernel("softmax"), file=str(tmp_path / "softmax.py"), triton=None)
    assert backend.variants(mine) == ()
    for name, *inputs in backend.FORMS:
        assert find.kernel(name).input_names == tuple(inputs)


def functions(module, path):
    """Parameters of the functions in a file of an installed library, which may not import without a GPU."""
    found = find_spec(module)
    if found is None:
        pytest.skip(f"{module} is not installed")
    tree = ast.parse(Path(found.submodule_search_locations[0], path).read_text())
    return {n.name: [a.arg for a in n.args.args] for n in tree.body if isinstance(n, ast.FunctionDef)}


def test_liger_is_called_as_it_is_declared():
    declared = functions("liger_kernel", "transformers/functional.py")
    assert declared["liger_softmax"] == ["x"]
    assert declared["liger_layer_norm"] == ["X", "W", "B", "eps"]
    assert declared["liger_rms_norm"][:3] == ["X", "W", "eps"]
    assert declared["liger_fused_add_rms_norm"][:4] == ["X", "R", "W", "eps"]
    assert declared["liger_swiglu"] == ["a", "b"]
    assert declared["liger_rope"][:4] == ["q", "k", "cos", "sin"]
    backward = functions("liger_kernel", "ops/softmax.py")["_softmax_backward"]
    assert backward == ["dy", "y", "BLOCK_SIZE", "num_warps", "multi_block_launch"]


def test_quack_is_called_as_it_is_declared():
    declared = functions("quack", "softmax.py")
    assert declared["softmax_fwd"] == ["x"] and declared["softmax_bwd"] == ["dy", "y"]
    declared = functions("quack", "cross_entropy.py")
    assert declared["cross_entropy_fwd"][:2] == ["x", "target"]
    assert {"ignore_index", "return_lse"} <= {*declared["cross_entropy_fwd"]}
    assert declared["cross_entropy_bwd"][:4] == ["x", "target", "dloss", "lse"]
    assert "ignore_index" in declared["cross_entropy_bwd"]
    declared = functions("quack", "rmsnorm.py")
    assert declared["layernorm_fwd"][:4] == ["x", "weight", "bias", "eps"]
    assert declared["rmsnorm_fwd"][:2] == ["x", "weight"] and {"residual", "eps"} <= {*declared["rmsnorm_fwd"]}


@pytest.fixture
def libraries(monkeypatch):
    """Modules like theirs, which keep how they are called."""
    calls = []

    def module(name, **functions):
        made = ModuleType(name)
        for function, result in functions.items():
            setattr(made, function, lambda *a, _f=function, _r=result, **k: calls.append((_f, a, k)) or _r)
        monkeypatch.setitem(sys.modules, name, made)
        return made

    package = module("liger_kernel.transformers")
    package.functional = module(
        "liger_kernel.transformers.functional", liger_softmax=1, liger_layer_norm=2, liger_rms_norm=5,
        liger_fused_add_rms_norm=("y", "sum"), liger_swiglu=6,
    )  # fmt: skip
    module("liger_kernel"), module("quack")
    operations = module("liger_kernel.ops")
    operations.softmax = module("liger_kernel.ops.softmax", _softmax_backward=7)
    module("liger_kernel.ops.utils", calculate_settings=("block", "warps"))
    module("quack.softmax", softmax_fwd=3, softmax_bwd=7)
    module("quack.rmsnorm", layernorm_fwd=4, rmsnorm_fwd=("y", "sum", None))
    module("quack.cross_entropy", cross_entropy_fwd=("loss", "lse"), cross_entropy_bwd=8)
    monkeypatch.setattr(_torch, "tensors", lambda on: [host_arrays.seen(a) for a in on.inputs.values()])
    monkeypatch.setattr(_torch, "pool", lambda on: _torch.nullcontext)
    return calls


def rows(name="float32", columns=8, weights="float32"):
    kinds = dtype(name).numpy, dtype(weights).numpy
    arrays = {"x": np.zeros((2, columns), kinds[0]), **{n: np.zeros(columns, kinds[1]) for n in ("gamma", "beta")}}
    return arrays, np.zeros((2, columns), kinds[0])


def ran(backend, name, arrays, **scalars):
    """What a library's function for the kernel of this name is bound to, after a run."""
    on = replace(host_arrays.operands(arrays, next(iter(arrays.values())).copy()), scalars=scalars)
    bound = backend.bind(find.kernel(name), "", dtype("float32"), on)
    bound.run()
    return bound


def given(libraries):
    """Of the last call: the function, the first elements of its tensors, its other arguments, and those by name."""
    name, positional, named = libraries[-1]
    arrays = [float(a.reshape(-1)[0]) for a in positional if hasattr(a, "reshape")]
    return name, arrays, [a for a in positional if not hasattr(a, "reshape")], named


@BOTH
def test_the_functions_get_the_arrays_and_the_kernels_eps(backend, libraries):
    bound = ran(backend, "layernorm", rows()[0])
    assert bound.output() == (2 if backend is liger else 4) and bound.allocates
    name, arguments, named = libraries[-1]
    assert name == ("liger_layer_norm" if backend is liger else "layernorm_fwd")
    assert [len(a) for a in arguments[:3]] == [2, 8, 8]
    assert (arguments[3:] or tuple(named.values())) == (1e-5,)
    ran(backend, "softmax", {"x": rows()[1]})
    assert libraries[-1][0] == ("liger_softmax" if backend is liger else "softmax_fwd")


@BOTH
def test_the_functions_of_rmsnorm_get_the_scalar_and_the_outputs_come_in_the_order_of_the_spec(backend, libraries):
    x, weight = np.zeros((2, 8), np.float32), np.zeros(8, np.float32)
    bound = ran(backend, "rmsnorm", {"x": x, "weight": weight}, eps=np.float32(0.25))
    name, arguments, named = libraries[-1]
    assert name == ("liger_rms_norm" if backend is liger else "rmsnorm_fwd")
    assert (arguments[2:] or tuple(named.values())) == (0.25,)
    assert bound.output() == (5 if backend is liger else "y")
    assert list(find.kernel("fused_add_rmsnorm").outs) == ["sum", "y"]
    assert backend.fused_add_rmsnorm(x, x, weight, eps=0.25) == ("sum", "y")


def test_quack_gets_the_ignored_class_and_returns_the_log_sum_exp(libraries):
    arrays = {"logits": np.zeros((2, 8), np.float32), "targets": np.zeros(2, np.int64)}
    bound = ran(quack, "cross_entropy", arrays, ignore_index=np.int64(7))
    name, arguments, named = libraries[-1]
    assert (name, len(arguments), named) == ("cross_entropy_fwd", 2, {"ignore_index": 7, "return_lse": True})
    assert bound.output() == ("loss", "lse") and list(find.kernel("cross_entropy").outs) == ["loss", "lse"]


def test_each_array_is_where_the_library_takes_it(libraries):
    def filled(*shape, value):
        return np.full(shape, value, np.float32)

    pair = {"y": filled(2, 8, value=1), "dy": filled(2, 8, value=2)}
    assert ran(quack, "softmax_backward", pair).output() == 7
    assert given(libraries) == ("softmax_bwd", [2, 1], [], {})
    assert ran(liger, "softmax_backward", pair).output() == 7
    assert libraries[-2][1] == (8,)  # the columns, whose settings it takes
    assert given(libraries) == ("_softmax_backward", [2, 1], ["block", "warps"], {"multi_block_launch": False})
    halves = {"gate": filled(2, 8, value=1), "up": filled(2, 8, value=2)}
    assert ran(liger, "swiglu", halves).output() == 6
    assert given(libraries) == ("liger_swiglu", [1, 2], [], {})
    rows = {"logits": filled(2, 8, value=1), "lse": filled(2, value=2), "targets": np.full(2, 3)}
    rows["dloss"] = filled(2, value=4)
    assert ran(quack, "cross_entropy_backward", rows, ignore_index=np.int64(5)).output() == 8
    assert given(libraries) == ("cross_entropy_bwd", [1, 3, 4, 2], [], {"ignore_index": 5})


@pytest.mark.sweep  # for the time that torch takes to load
def test_liger_turns_a_copy_in_its_own_layout(monkeypatch):
    torch, kernel = pytest.importorskip("torch"), find.kernel("rope")

    def liger_rope(q, k, cos, sin):
        """As Liger does it: (batch, heads, tokens, 2 half), in place, with keys."""
        assert q.transpose(1, 2).is_contiguous() and tuple(k.shape) == (1, 1, 5, 8)
        q.transpose(1, 2)[0].copy_(kernel.torch(q.transpose(1, 2)[0], cos[0], sin[0]))
        return q, k

    library = SimpleNamespace(functional=SimpleNamespace(liger_rope=liger_rope))
    monkeypatch.setitem(sys.modules, "liger_kernel.transformers", library)
    x, cos, sin = map(torch.from_numpy, kernel.make((5, 3, 4), dtype("float32")).values())
    given, want = x.clone(), kernel.torch(x, cos, sin)
    torch.testing.assert_close(liger.rope(x, cos, sin), want)
    torch.testing.assert_close(x, given)


def test_what_they_do_not_take_is_said(libraries):
    arrays, y = rows(columns=70_000)
    with pytest.raises(Unavailable, match=r"rows of at most 65,536 elements, and these have 70,000"):
        liger.bind(find.kernel("layernorm"), "", dtype("float32"), host_arrays.operands(arrays, y))
    arrays, y = rows("float16", weights="float16")
    with pytest.raises(Unavailable, match="QuACK takes gamma in float32, and it is in float16"):
        quack.bind(find.kernel("layernorm"), "", dtype("float16"), host_arrays.operands(arrays, y))
    on = host_arrays.operands({"x": rows()[0]["x"]}, y)
    on.inputs["x"] = replace(on.inputs["x"], ptr=on.inputs["x"].ptr // 16 * 16 + 4)
    with pytest.raises(Unavailable, match="QuACK needs x aligned to 16 bytes, and it is not"):
        quack.bind(find.kernel("softmax"), "", dtype("float32"), on)
    odd = host_arrays.operands({"x": np.zeros((2, 7), np.float32)}, y)
    odd.inputs["x"] = replace(odd.inputs["x"], ptr=odd.inputs["x"].ptr // 16 * 16 + 4)
    quack.refuse(quack.layernorm, odd)  # it reads such rows element by element
    with pytest.raises(Unavailable, match="QuACK's softmax takes rows whose size is a multiple of 16 bytes"):
        quack.bind(find.kernel("softmax"), "", dtype("float32"), odd)
