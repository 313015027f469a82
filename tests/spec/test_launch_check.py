"""Arguments of a launch against the parameters of the `.cu`: what does not fit is named, with what to write instead."""

from __future__ import annotations

import numpy as np
import pytest

from cudalab.base.errors import NotFound
from cudalab.spec import launch_check
from cudalab.spec.cuda_source import Parameter
from cudalab.spec.dtype import DTYPES, dtype, of_c
from cudalab.spec.launch import Launch

X = np.zeros(4, np.float32)
PAIR = np.array((2.0, 1.0), [("a", "f4"), ("b", "f4")])[()]


def said(parameter, given, written=()):
    return launch_check.wrong(Launch((1,), (1,), (given,)), [Parameter(parameter)], {"x": X}, written, "")


@pytest.mark.parametrize(
    ("parameter", "given", "named"),
    [
        ("const __grid_constant__ Params p", PAIR, "its launch passes a structured value of a, b"),
        ("float2 ab", PAIR, "its launch passes a structured value of a, b"),
        ("struct Params p", np.zeros(2), "its launch passes a value of type ndarray; where Params is a number"),
        ("const float* const* xs", X, "pointers to pointers, but its launch passes the array 'x'"),
        ("float **ys", X, "pointers to pointers"),
        ("float* ys[]", X, "pointers to pointers"),
        ("float* y", np.int32(1), "its launch passes np.int32; give one of its arrays as it is"),
        ("unsigned long int n", 7, "as a NumPy scalar: np.uint64(...)"),
    ],
)
def test_a_parameter_that_a_launch_cannot_fill_is_named_with_what_to_write(parameter, given, named):
    message = said(parameter, given)
    assert repr(parameter) in message and named in message
    if given is PAIR or isinstance(given, np.ndarray):
        assert "let the kernel take" in message


@pytest.mark.parametrize("given", [X, np.uint64(0), PAIR])
@pytest.mark.parametrize(
    "parameter", ["cudaTextureObject_t tex", "const cudaSurfaceObject_t s", "const __grid_constant__ CUtensorMap map"]
)
def test_textures_surfaces_and_tensor_maps_are_refused_with_what_to_write(parameter, given):
    assert said(parameter, given).startswith(f" wants {parameter!r}; cudalab makes no textures, surfaces or tensor")


@pytest.mark.parametrize(
    ("parameter", "given"),
    [("float (*x)[4]", X), ("float x[]", X), ("const volatile float* x", X), ("Mode mode", np.int32(1))],
)
def test_what_a_launch_can_fill_is_taken(parameter, given):
    assert said(parameter, given) == ""


@pytest.mark.parametrize(
    ("ctype", "name"),
    [
        ("unsigned", "uint32"), ("unsigned int", "uint32"), ("int unsigned", "uint32"), ("uint32_t", "uint32"),
        ("unsigned char", "uint8"), ("std::uint8_t", "uint8"), ("signed char", "int8"), ("unsigned short", "uint16"),
        ("short unsigned int", "uint16"), ("long long", "int64"), ("long long int", "int64"), ("long", "int64"),
        ("unsigned long long", "uint64"), ("unsigned long", "uint64"), ("size_t", "uint64"), ("signed", "int32"),
        ("half", "float16"), ("char", None), ("long double", None), ("", None), ("T", None),
    ],
)  # fmt: skip
def test_a_type_has_one_dtype_however_it_is_written(ctype, name):
    assert of_c(ctype) == DTYPES.get(name)


def test_a_launch_of_too_few_arguments_is_told_the_signature():
    declared = [Parameter("const float* x"), Parameter("float* y"), Parameter("int n")]
    message = launch_check.wrong(Launch((1,), (1,), (X, X)), declared, {"x": X}, (), "")
    signature = "(const float* x, float* y, int n)"
    assert message.endswith(f"takes 3 arguments, but its launch passes 2; its signature is {signature}")


@pytest.mark.parametrize(
    ("parameter", "written", "advice"),
    [
        ("const double* x", (), """give inputs={"x": In("float64")} for this array alone, or dtypes=("float64",)"""),
        ("double* x", ("x",), """give outputs={"x": Out(dtype="float64")} for this array alone, or dtypes=("""),
    ],
)
def test_an_array_of_another_dtype_is_told_the_field_that_sets_it(parameter, written, advice):
    message = said(parameter, X, written)
    assert message.startswith(f" wants {parameter!r}, but 'x' has float32 elements; ") and advice in message


@pytest.mark.parametrize(
    ("name", "meant"), [("fp32", "float32"), ("half", "float16"), ("bf16", "bfloat16"), ("flota64", "float64")]
)
def test_the_dtype_that_is_meant_is_named(name, meant):
    with pytest.raises(NotFound, match=f"no dtype named '{name}'; did you mean '{meant}'"):
        dtype(name)
