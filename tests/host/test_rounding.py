"""Functions whose name says how they round, comparisons with NaN and special functions of the CPU executor."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import on_cpu
import pytest
from scipy import special

CU, N = "rounding.cu", 60


def run(module, entry, *args):
    on_cpu.run(module, entry, 1, 64, *args, np.int32(N))


def rounded_as_named(four, exact):
    """Whether four numbers are a fraction rounded to nearest, down, up and to zero."""
    near, down, up, zero = four
    low, high = (Fraction(float(one)) for one in (down, up))
    assert low <= exact <= high
    assert low == high or np.nextafter(down, down.dtype.type(math.inf)) == up
    assert zero == (down if exact > 0 else up)
    assert near == (down if exact - low < high - exact else up) or exact - low == high - exact


@pytest.mark.parametrize(("entry", "kind"), [("singles", np.float32), ("doubles", np.float64)])
def test_arithmetic(module, rng, entry, kind):
    a, b, c = (rng.standard_normal((3, N)) * 2.0 ** rng.integers(-9, 9, (3, N))).astype(kind)
    y = np.zeros((N, 7, 4), kind)
    run(module, entry, a, b, c, y)
    for i in range(N):
        p, q, r = (Fraction(float(one[i])) for one in (a, b, c))
        for four, exact in zip(y[i], (p + q, p - q, p * q, p / q, 1 / q, None, p * q + r), strict=True):
            if exact is not None:
                rounded_as_named(four, exact)
        low, high = (Fraction(float(one)) for one in y[i, 5, 1:3])
        assert low**2 <= abs(q) <= high**2 and y[i, 5, 3] == y[i, 5, 1]


def test_conversions(module, rng):
    x, whole = rng.standard_normal(N), rng.integers(-(2**63), 2**63, N)
    x[0] = 1e300
    y, z = np.zeros((N, 4, 4), np.float32), np.zeros((N, 4), np.float64)
    run(module, "narrowed", x, whole, y, z)
    most = np.finfo(np.float32).max
    assert y[0, 0].tolist() == [math.inf, most, math.inf, most]
    for i in range(1, N):
        given = Fraction(x[i]), int(whole[i]), int(whole[i].astype(np.int32)), int(whole[i].astype(np.uint64))
        for four, exact in zip(y[i], given, strict=True):
            rounded_as_named(four, exact)
        rounded_as_named(z[i], int(whole[i]))


@pytest.mark.parametrize(
    ("entry", "kind", "most"), [("halves", np.float16, 65504.0), ("bfloats", ml_dtypes.bfloat16, 3.3895314e38)]
)
def test_halves(module, rng, entry, kind, most):
    x = (rng.standard_normal(N) * 10.0 ** rng.integers(-6, 4, N)).astype(np.float32)
    x[:4] = 3.4e38, -3.4e38, 1e-9 if kind is np.float16 else 1e-42, 0
    whole = rng.integers(-60000, 60000, N)
    y, z = np.zeros((N, 2, 4), kind), np.zeros((N, 2, 4), np.int32)
    run(module, entry, x, whole, y, z)
    plain = y.astype(np.float32)
    assert plain[0, 0].tolist() == [math.inf, np.float32(most), math.inf, np.float32(most)]
    assert plain[1, 0].tolist() == [-math.inf, -math.inf, -np.float32(most), -np.float32(most)]
    assert plain[3, 0].tolist() == [0, 0, 0, 0]
    for i in range(2, N):
        for four, exact in zip(y[i], (Fraction(float(x[i])), int(whole[i])), strict=True):
            rounded_as_named(four, exact)
        back = float(np.float32(kind(x[i])))
        whole_of = [round(back), math.floor(back), math.ceil(back), math.trunc(back)]
        assert z[i, 0].tolist() == whole_of
        assert z[i, 1].tolist() == [min(max(one, -32768), 32767) for one in whole_of]


def test_comparisons_that_nan_fulfils(module, rng):
    values = np.array([0, 1, -1, np.nan, np.inf, -0.0], np.float16)
    a, b = (rng.choice(values, (N, 2)) for _ in "ab")
    y = np.zeros((N, 8), np.uint32)
    run(module, "compared", a, b, y)

    def mask(holds):
        return holds[:, 0] * 0xFFFF + holds[:, 1] * 0xFFFF0000

    either = np.isnan(a) | np.isnan(b)
    want = (
        mask(a == b), mask((a < b) | either), mask(a > b), mask(a != b), ((a >= b) | either).all(1),
        ((a == b) | either)[:, 0], ((a <= b) | either)[:, 1], ((a == b) | either)[:, 1] * 0x3C00,
    )  # fmt: skip
    for got, due in zip(y.T, want, strict=True):
        np.testing.assert_array_equal(got, due)


def test_special_functions(module):
    x = np.concatenate([np.linspace(-8, 8, N - 4), [0.5, 30, 200, -20]])
    y = np.zeros((N, 8))
    run(module, "special", x, y)
    want = (
        special.sindg(180 * x), special.cosdg(180 * x), special.erfcx(x), special.i0(x), special.i1(x), 3 * abs(x),
        1 / (3 * abs(x)), np.float32(5 * abs(np.float32(x))),
    )  # fmt: skip
    for k, due in enumerate(want):
        np.testing.assert_allclose(y[:, k], due, rtol=2e-7 if k == 7 else 1e-12, atol=1e-14)
    assert y[-3, 0] == 0 and y[-4, 1] == 0  # exact at multiples of a half
