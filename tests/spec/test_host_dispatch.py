"""The dtypes that AT_DISPATCH macros of the host code choose from."""

from __future__ import annotations

import pytest

from cudalab.spec import host_dispatch

CALL = '(x.scalar_type(), "k", [&] { auto f = at::kLong; a::k<scalar_t, 4><<<n, 1>>>(x.data_ptr<scalar_t>(), n); })'
WHOLE = "int8 int16 int32 int64 uint8"
FLOATS = "float32 float64"


def with_types(types):
    return CALL.replace("(x", f"({types}x", 1)


@pytest.mark.parametrize(
    ("macro", "dtypes"),
    [
        (f"AT_DISPATCH_FLOATING_TYPES{CALL}", FLOATS),
        (f"AT_DISPATCH_FLOATING_TYPES_AND_HALF{CALL}", f"{FLOATS} float16"),
        (f"AT_DISPATCH_FLOATING_TYPES_AND{with_types('at::kBFloat16, ')}", f"{FLOATS} bfloat16"),
        (f"AT_DISPATCH_FLOATING_TYPES_AND2{with_types('at::ScalarType::Half, torch::kBFloat16, ')}",
         f"{FLOATS} float16 bfloat16"),
        (f"AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND2{with_types('kHalf, kBFloat16, ')}",
         f"{FLOATS} float16 bfloat16"),
        (f"AT_DISPATCH_REDUCED_FLOATING_TYPES{CALL}", "float16 bfloat16"),
        (f"AT_DISPATCH_INTEGRAL_TYPES{CALL}", WHOLE),
        (f"AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND{with_types('at::kHalf, ')}", f"{FLOATS} float16 {WHOLE}"),
        ('AT_DISPATCH_V2(x.scalar_type(), "k", AT_WRAP([&] { k<scalar_t><<<1, 1>>>(x); }), '
         "AT_EXPAND(AT_FLOATING_TYPES), at::kHalf)", f"{FLOATS} float16"),
        ('AT_DISPATCH_SWITCH(x.scalar_type(), "k", AT_DISPATCH_CASE(at::kFloat, [&] { k<scalar_t><<<1, 1>>>(x); })\n'
         "AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES([&] { k<scalar_t><<<1, 1>>>(x); }))", "float32 float16 bfloat16"),
        ("AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), [&] { AT_DISPATCH_CASE(at::kHalf, [&] { k<<<1, 1>>>(x); }) })",
         "float16"),
        ("AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), [&] { launch<scalar_t>(x); })} "
         "template <typename scalar_t> void launch(T x) { k<scalar_t><<<1, 1>>>(x); }", FLOATS),
        ("k<<<1, 1>>>(x.data_ptr<float>()); AT_DISPATCH_ALL_TYPES(x.scalar_type(), [&] { run<scalar_t>(x); })", None),
        ("AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), [&] { using value_t = scalar_t; AT_DISPATCH_INTEGRAL_TYPES("
         "i.scalar_type(), [&] { k<value_t, scalar_t><<<1, 1>>>(x, i); }) })", None),
        ("// AT_DISPATCH_ALL_TYPES(\nk<float><<<1, 1>>>(x);", None),
        ("AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), [&] { k<<<1, 1>>>(x);", FLOATS),  # does not end
    ],
)  # fmt: skip
def test_a_launch_has_the_dtypes_of_the_macro_around_it(macro, dtypes):
    found = {kernel: set(names) for kernel, names in host_dispatch.by_kernel(macro).items()}
    assert found == ({"k": set(dtypes.split())} if dtypes else {})
