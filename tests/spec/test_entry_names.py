"""Names of entries as C++ writes them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cudalab.base.errors import SpecError
from cudalab.spec import cuda_source, entry_names, find

TEXT = (Path(__file__).parents[1] / "data" / "launch" / "names.cu").read_text()


@pytest.mark.parametrize(
    ("name", "expression"),
    [
        ("k", "&k"),
        ("ns::k", "&ns::k"),
        ("row_sum<64, float>", "&row_sum<64, float>"),
        ("a::b::k<(1 > 2), ns::T<3>>", "&a::b::k<(1 > 2), ns::T<3>>"),
        ("k<>", "&k<>"),
        ("k(float*, const int*)", "static_cast<void (*)(float*, const int*)>(&k)"),
        ("k<int>(int)", "static_cast<void (*)(int)>(&k<int>)"),
    ],
)
def test_a_name_becomes_the_address_of_a_function(name, expression):
    assert entry_names.asked(name).expression == expression


@pytest.mark.parametrize("name", ["", "3k", "k;", "k<3", "k\n", "k}", 'k<"a">', "two words", "k<3>x", "k // x"])
def test_what_names_no_function_is_refused(name):
    with pytest.raises(SpecError, match=r"does not name a function; write k, ns::k, row_sum<64, float> or k\(float"):
        entry_names.asked(name)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("scale", r'scale is a template \(scale<factor, T>\); write "scale<64, float>"'),
        ("times", r'times is a template \(ns::times<factor>\); write "ns::times<2>"'),
        ("add", r"add is overloaded; write 'add\(float\*, const float\*, int\)' or 'add\(float\*, const float\*, fl"),
        ("plain<3>", "plain is not a template; write 'plain'"),
        ("scale_2", ""),  # of a macro: the compiler has to say
        ("ns::inner::twice", ""),
        ("twice", ""),
    ],
)
def test_what_the_text_says_of_a_name(name, says):
    assert re.match(says or "$", entry_names.wrong(TEXT, name))


def test_without_macros_a_name_that_is_not_there_suggests_the_close_one():
    text = "template <int N> __global__ void row_sum(float* y) {}\nnamespace ns { __global__ void k(float* y) {} }\n"
    assert "did you mean 'row_sum<N>'" in entry_names.wrong(text, "rowsum<3>")
    assert "known: row_sum<N>, ns::k" in entry_names.wrong(text, "other")
    text += "namespace other { __global__ void k(float* y) {} }\n"
    assert entry_names.wrong(text, "k") == "k is in several namespaces; write 'ns::k' or 'other::k'"


def test_plain_files_are_compiled_as_before():
    """Their machine code is published and compared."""
    for kernel in find.kernels().values():
        text = cuda_source.read(kernel.cu)
        before = cuda_source.with_c_names(text, kernel.cu.name)
        assert entry_names.source(text, kernel.cu.name, kernel.entries) == before
        assert entry_names.not_plain(text, kernel.entries) == ()


def test_a_declaration_and_a_choice_of_the_preprocessor_are_no_overloads():
    text = "__global__ void k(float* x);\n#if A\n__global__ void k(float* x) {}\n#else\n"
    text += "__global__ void k(float* z) {}\n#endif\n"
    assert entry_names.not_plain(text, ["k"]) == ()
    assert entry_names.source(text, "k.cu", ["k"]).count('extern "C"') == 3


def test_only_what_needs_it_gets_a_marker():
    names = ("scale<2>", "plain", "ns::inner::twice", "scale_2")
    program = entry_names.source(TEXT, "names.cu", names)
    assert entry_names.marked(program) == ["&scale<2>", "&ns::inner::twice", "&scale_2"]
    assert 'extern "C" __global__ void plain(' in program and 'extern "C" __global__ void twice(' not in program


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("scale<2, double>", ["double* y", "const double* x", "int n"]),
        ("scale<2>", ["float* y", "const float* x", "int n"]),  # the template's default
        ("ns::times<>", ["float* y", "const float* x", "int n"]),
        ("twice", ["float* __restrict__ y", "const float* __restrict__ x", "int n"]),
        ("add(float*, const float*, int)", ["float*", "const float*", "int value"]),
        ("scale_2", None),
    ],
)
def test_parameters_as_far_as_the_text_shows_them(name, types):
    found = entry_names.parameters(TEXT, name)
    assert (found and [parameter.text for parameter in found]) == types


def test_constants_are_found_with_their_namespaces_and_types():
    text = """__constant__ float w[3] = {1, 2, 3}, b;
namespace p { static __constant__ const double s = f(1, 2); struct Q {}; __constant__ Q q; }
extern __constant__ int elsewhere;"""
    assert entry_names.constants(text) == {"w": "float", "b": "float", "p::s": "double", "p::q": "Q"}
    assert entry_names.constant_named("s", entry_names.constants(text)) == "p::s"


@pytest.mark.parametrize("word", ["static", "inline"])
def test_beside_static_and_inline_no_linkage_is_written(word):
    text = f"{word} __global__ void k(float* y) {{}}"
    assert entry_names.not_plain(text, ["k"]) == ("k",)
    assert 'extern "C"' not in entry_names.source(text, "k.cu", ["k"])
