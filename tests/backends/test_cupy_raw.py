"""CuPy's compilers for a `.cu`, with a stand-in for CuPy."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from cudalab.backends import cupy_raw
from cudalab.base.errors import CompileError
from cudalab.device import cuda
from cudalab.spec import find
from cudalab.spec.dtype import dtype


class CompileException(Exception):
    pass


@pytest.fixture
def compiled(monkeypatch):
    """The compilers that were asked; NVRTC takes nothing."""
    asked = []

    def module(code, options, backend, name_expressions):
        asked.append(backend)
        if backend == "nvrtc":
            raise CompileException("no host headers")
        return SimpleNamespace(get_function=lambda name: name)

    compiler = SimpleNamespace(compiler=SimpleNamespace(CompileException=CompileException))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(RawModule=module, cuda=compiler))
    monkeypatch.setattr(cupy_raw, "_refused", {})
    return asked


def function(name):
    return cupy_raw._function(find.kernel("gelu"), name, dtype("float32"), False)


def test_what_nvrtc_refuses_goes_to_nvcc_at_once_the_next_time(compiled, monkeypatch):
    monkeypatch.setattr(cuda, "nvcc", lambda: "nvcc")
    assert [function(name) for name in ("gelu_scalar", "gelu_vec")] == ["gelu_scalar", "gelu_vec"]
    assert compiled == ["nvrtc", "nvcc", "nvcc"]


def test_without_nvcc_its_words_are_those_of_nvrtc_each_time(compiled, monkeypatch):
    monkeypatch.setattr(cuda, "nvcc", lambda: None)
    for _ in range(2):
        with pytest.raises(CompileError, match="does not compile with NVRTC:\nno host headers"):
            function("gelu_scalar")
    assert compiled == ["nvrtc"]
