"""The output's contents before a run: a kernel that reads what it has not set is wrong, whatever operation it uses."""

from __future__ import annotations

import re

import numpy as np
import pytest
from cpu_rows import cpu_rows

from cudalab.device.cpu import Cpu
from cudalab.device.guard import BLOCK, fills
from cudalab.engine.groups import Group
from cudalab.spec.dtype import DTYPES, dtype
from cudalab.spec.kernel import Budget, Kernel, Launch

# One thread a row of `cols` values, each of which it combines with what y[r] holds. One file has all of them.
ENTRY = """
__global__ void {name}(const scalar_t* x, scalar_t* y, int rows, int cols) {{
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    {first}
    for (int c = 0; c < cols; ++c) {{
        const scalar_t v = x[r * cols + c];
        {combine}
    }}
}}
"""
HEAD = """#include <cuda_bf16.h>
__device__ float f(scalar_t v) {{ return (float)v; }}
#define LOWEST {lowest}
#define HIGHEST {highest}
"""


def whole(function):
    return lambda x, axis: function(x, axis).astype(x.dtype)


def negative(x):
    return -abs(x)


# By name: how v is combined with y[r], the value that should have been there, NumPy's form, and what the values become.
FLOATS = {
    "fmaxf": ("y[r] = (scalar_t)fmaxf(f(y[r]), f(v));", "(scalar_t)-INFINITY", np.max, float),
    "fminf": ("y[r] = (scalar_t)fminf(f(y[r]), f(v));", "(scalar_t)INFINITY", np.min, float),
    "unless greater": ("if (!(f(y[r]) > f(v))) y[r] = v;", "(scalar_t)-INFINITY", np.max, float),
    "unless less": ("if (!(f(y[r]) < f(v))) y[r] = v;", "(scalar_t)INFINITY", np.min, float),
    "if greater": ("if (f(v) > f(y[r])) y[r] = v;", "(scalar_t)-INFINITY", np.max, float),
    "+=": ("y[r] = (scalar_t)(f(y[r]) + f(v));", "(scalar_t)0.f", np.sum, float),
    "*=": ("y[r] = (scalar_t)(f(y[r]) * f(v));", "(scalar_t)1.f", np.prod, float),
    "0 * y": ("y[r] = (scalar_t)(0.f * f(y[r]) + f(v));", "(scalar_t)0.f", lambda x, axis: x[:, -1], float),
    "relu": ("y[r] = (scalar_t)fmaxf(f(y[r]), 0.f); if (f(v) > 0) y[r] = v;", "(scalar_t)0.f",
             lambda x, axis: np.maximum(x[:, -1], 0), negative),
}  # fmt: skip
BY_SIGN = (
    "v >= 0 ? (void)atomic{}((int*)y + r, __float_as_int(v)) : (void)atomic{}((unsigned*)y + r, __float_as_uint(v));"
)
ORDERED = {
    "atomicMax as int": ("atomicMax((int*)y + r, __float_as_int(v));", "0.f", np.max, abs),
    "atomicMin as int": ("atomicMin((int*)y + r, __float_as_int(v));", "INFINITY", np.min, abs),
    "atomicMax as unsigned": ("atomicMax((unsigned*)y + r, __float_as_uint(v));", "0.f", np.max, abs),
    "atomicMin as unsigned": ("atomicMin((unsigned*)y + r, __float_as_uint(v));", "INFINITY", np.min, abs),
    "atomicMax by sign": (BY_SIGN.format("Max", "Min"), "-INFINITY", np.max, float),
    "atomicMin by sign": (BY_SIGN.format("Min", "Max"), "INFINITY", np.min, float),
    "atomicMax by sign, all negative": (BY_SIGN.format("Max", "Min"), "-INFINITY", np.max, negative),
}
INTEGERS = {
    "max": ("if (v > y[r]) y[r] = v;", "LOWEST", np.max, int),
    "min": ("if (v < y[r]) y[r] = v;", "HIGHEST", np.min, int),
    "+=": ("y[r] += v;", "0", whole(np.sum), int),
    "*=": ("y[r] *= v;", "1", lambda x, axis: np.prod(x, axis, dtype=x.dtype), int),
    "&=": ("y[r] &= v;", "(scalar_t)-1", np.bitwise_and.reduce, int),
    "|=": ("y[r] |= v;", "0", np.bitwise_or.reduce, int),
    "^=": ("y[r] ^= v;", "0", np.bitwise_xor.reduce, int),
    "&&": ("y[r] = y[r] && v;", "1", whole(np.all), int),
    "||": ("y[r] = y[r] || v;", "0", whole(np.any), lambda value: 0),
}
CASES = [
    *((name, kind) for name in FLOATS for kind in ("float32", "float16", "bfloat16", "float64")),
    *((name, "float32") for name in ORDERED),
    *((name, kind) for name in INTEGERS for kind in ("int32", "int64", "uint8")),
]


def idioms(kind):
    return INTEGERS if not DTYPES[kind].floating else FLOATS | (ORDERED if kind == "float32" else {})


def rows(folder, idiom, kind, entries=("right", "wrong"), count=1, cols=5):
    """The rows of entries that reduce `count` rows of x, with and without the first value, executed on the host."""
    number = list(idioms(kind)).index(idiom)
    limits = (0, 0) if DTYPES[kind].floating else (f"{np.iinfo(kind).min + 1}LL - 1", f"{np.iinfo(kind).max}LL")
    text = HEAD.format(lowest=0 if kind == "uint8" else f"({limits[0]})", highest=limits[1])
    for i, (combine, first, *_) in enumerate(idioms(kind).values()):
        text += ENTRY.format(name=f"right_{i}", first=f"y[r] = {first};", combine=combine)
        text += ENTRY.format(name=f"wrong_{i}", first="", combine=combine)
    (folder / "k.cu").write_text(text)
    reference, become = idioms(kind)[idiom][2:]

    def inputs(shape, dtype, rng):
        drawn = rng.integers(96, 128, shape) | 1 if dtype.kind in "iu" else rng.standard_normal(shape)
        return {"x": np.vectorize(become)(drawn).astype(dtype)}

    kernel = Kernel(
        file=str(folder / "k.py"), summary="", dtypes=(kind,), sizes={"small": (count, cols)}, edges=(),
        inputs=inputs, reference=lambda x: reference(x, axis=1), shapes={"x": "rows cols", "y": "rows"},
        entries={f"{e}_{number}": lambda x, y: Launch((1,), (32,), (x, y, *map(np.int32, x.shape))) for e in entries},
        budgets={kind: Budget(64, atol=0.1) if DTYPES[kind].floating else Budget(0)},
    )  # fmt: skip
    return cpu_rows(Group(kernel, "small", (count, cols), dtype(kind)), "host")


@pytest.mark.sweep
@pytest.mark.parametrize(("idiom", "kind"), CASES)
def test_an_output_of_one_element_that_is_not_initialised_is_wrong(tmp_path, idiom, kind):
    right, wrong = rows(tmp_path, idiom, kind)
    assert (right.status, right.reason) == ("ok", "")
    assert wrong.status == "WRONG"


@pytest.mark.sweep
def test_the_message_says_that_the_output_was_read(tmp_path):
    (case,) = rows(tmp_path, "fmaxf", "float32", entries=["wrong"], count=7)
    assert "7 of 7 values differ by more than 64 ULP + 0.1: [0] got 1.30577099e+36, want " in case.reason
    assert re.search(r'; y is read before it is written: .*, or give outputs={"y": Out\(fill=', case.reason)


@pytest.mark.parametrize("kind", DTYPES.values(), ids=DTYPES)
def test_contents_are_distinct_numbers_of_the_dtype(kind):
    first, large, low, zero, drawn = fills(kind, 0)
    of = dtype(kind.part) if kind.complex else dtype("int8") if kind.name == "bool" else kind
    values = [np.frombuffer(bytes([byte] * 16), of.numpy)[0].astype(np.float64) for byte in (large, low, zero)]
    unsigned = of.numpy.kind == "u"
    assert values[0] > 100 and values[2] == 0 and (values[1] < values[0] / 30 if unsigned else values[1] < -100)
    assert np.isfinite(values).all()
    assert (first, len(drawn)) == (0xFF, BLOCK)
    assert fills(kind, 1)[-1] != drawn == fills(kind, 0)[-1]


@pytest.mark.parametrize("nbytes", [0, 1, 7, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
def test_a_block_is_repeated_to_the_end(nbytes):
    drawn = fills(dtype("uint8"), 3)[-1]
    memory = np.zeros(nbytes, np.uint8)
    Cpu().poison(memory, drawn)
    assert memory.tobytes() == (drawn * 4)[:nbytes]


@pytest.mark.parametrize("content", [0xFF, bytes(4)])
def test_an_output_without_elements_can_be_filled(content):
    Cpu().poison(np.empty(0, np.float32), content)
