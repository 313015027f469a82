"""Liger-Kernel and QuACK: which kernels of the lab they have, what they refuse, and how they are called."""

from __future__ import annotations

import ast
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

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


def test_every_form_names_a_kernel_and_its_inputs():
    for backend in (liger, quack):
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


def test_quack_is_called_as_it_is_declared():
    assert functions("quack", "softmax.py")["softmax_fwd"] == ["x"]
    assert functions("quack", "rmsnorm.py")["layernorm_fwd"][:4] == ["x", "weight", "bias", "eps"]


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
    package.functional = module("liger_kernel.transformers.functional", liger_softmax=1, liger_layer_norm=2)
    module("liger_kernel"), module("quack")
    module("quack.softmax", softmax_fwd=3)
    module("quack.rmsnorm", layernorm_fwd=4)
    monkeypatch.setattr(_torch, "tensors", lambda on: [host_arrays.seen(a) for a in on.inputs.values()])
    monkeypatch.setattr(_torch, "pool", lambda on: _torch.nullcontext)
    return calls


def rows(name="float32", columns=8, weights="float32"):
    kinds = dtype(name).numpy, dtype(weights).numpy
    arrays = {"x": np.zeros((2, columns), kinds[0]), **{n: np.zeros(columns, kinds[1]) for n in ("gamma", "beta")}}
    return arrays, np.zeros((2, columns), kinds[0])


@BOTH
def test_the_functions_get_the_arrays_and_the_kernels_eps(backend, libraries):
    arrays, y = rows()
    bound = backend.bind(find.kernel("layernorm"), "", dtype("float32"), host_arrays.operands(arrays, y))
    bound.run()
    assert bound.output() == (2 if backend is liger else 4) and bound.allocates
    name, given, named = libraries[-1]
    assert name == ("liger_layer_norm" if backend is liger else "layernorm_fwd")
    assert [len(a) for a in given[:3]] == [2, 8, 8]
    assert (given[3:] or tuple(named.values())) == (1e-5,)
    bound = backend.bind(find.kernel("softmax"), "", dtype("float32"), host_arrays.operands({"x": arrays["x"]}, y))
    bound.run()
    assert libraries[-1][0] == ("liger_softmax" if backend is liger else "softmax_fwd")


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
    quack.refuse(odd)  # it reads such rows element by element


@BOTH
def test_their_absence_is_said(backend, monkeypatch):
    monkeypatch.setattr(backend, "installed", lambda module: False)
    backend.missing.cache_clear()
    name = {liger: "Liger-Kernel is not installed; ", quack: "QuACK is not installed; "}[backend]
    try:
        assert backend.missing("cuda").startswith(name)
        assert "install " in backend.missing("cuda")
    finally:
        backend.missing.cache_clear()


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["liger", "quack"])
@pytest.mark.parametrize("kernel", ["softmax", "layernorm"])
def test_on_a_gpu(name, kernel):
    import cudalab
    from cudalab import backends

    if reason := backends.by_name()[name].missing("cuda"):
        pytest.skip(reason)
    found = cudalab.check(kernel, only=name, device="cuda")
    assert {case.status for case in found.cases} <= {"ok", "skipped"}, [case.reason for case in found.cases]
    assert any(case.status == "ok" for case in found.cases)
