"""Rivals: what a spec and the command line may say of one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cudalab.base.errors import CudalabError, InputError, SpecError
from cudalab.spec import find, rival


def with_(**rivals):
    return replace(find.kernel("plus_one"), rivals=rivals)


def one(text):
    ((name, found),) = rival.parsed([text], find.loaded).items()
    return name, found


def test_a_spec_gives_a_function_or_a_function_with_words():
    def returns(x):
        return x + 1

    def writes(x, y):
        y[...] = x + 1

    found = {name: rival.rival_of(given) for name, given in with_(a=returns, b=(writes, "out", "cupy")).rivals.items()}
    assert (found["a"].arrays, found["a"].out, found["a"].runs_on) == ("torch", False, ("cuda", "cpu"))
    assert (found["b"].arrays, found["b"].out, found["b"].runs_on) == ("cupy", True, ("cuda",))
    assert found["b"].load() is writes
    assert rival.rival_of((returns, "numpy")).runs_on == ("cpu",)
    assert rival.rival_of((returns, "cuda")).runs_on == ("cuda",)


def test_the_command_line_names_a_file_or_a_module(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("class A:\n    f = staticmethod(lambda x: x)\n\n\ndef g(x, y):\n    pass\n")
    monkeypatch.chdir(tmp_path)
    name, found = one("mine.py:g:out")
    assert (name, found.out, found.file) == ("g", True, tmp_path / "mine.py")
    assert found.load().__name__ == "g"
    name, found = one("other=./mine:A.f:cuda")
    assert (name, found.out, found.runs_on) == ("other", False, ("cuda",))
    name, found = one("np=numpy:exp:numpy")
    assert found.file is None and found.load()(0.0) == 1.0


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["mine"], "cannot read the rival 'mine'; write NAME=MODULE:FUNCTION"),
        (["mine:"], "cannot read the rival"),
        ([":f"], "cannot read the rival"),
        (["a b=numpy:exp"], "cannot read the rival"),
        (["numpy:exp:ouut"], r"no word of a rival named 'ouut'; did you mean 'out'\?"),
        (["numpy:exp", "math:exp"], "two rivals are named exp; give one another name, such as exp2=math:exp"),
        (["./none.py:f"], "no file .*none.py for the rival"),
        (["no_such_module:f"], "no module 'no_such_module' for the rival; install it, or give its path"),
        (["beside:f"], r"no module 'beside' for the rival; there is beside\.py: write \./beside\.py"),
    ],
)
def test_a_text_that_names_no_rival_is_refused(texts, said, tmp_path, monkeypatch):
    (tmp_path / "beside.py").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError if "cannot read" in said else CudalabError, match=said):
        rival.parsed(texts, find.loaded)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("numpy:expp", "no function named 'expp'"),
        ("numpy:pi", "numpy: pi is a float, and cannot be called"),
        ("numpy.nothing:f", "the rival's module numpy.nothing cannot be imported: ModuleNotFoundError"),
        ("{tmp_path}/mine.py:f", r"mine\.py: RuntimeError: not yet"),
    ],
)
def test_what_a_module_lacks_is_said_when_it_is_used(text, said, tmp_path):
    (tmp_path / "mine.py").write_text("raise RuntimeError('not yet')\n")
    _, found = one(text.format(tmp_path=tmp_path))
    with pytest.raises(SpecError, match=said):
        found.load()
