"""8-bit floating-point numbers of the CPU executor, beside those of ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from on_cpu import run, source

from cudalab import host

pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in cast")
KINDS = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}


@pytest.fixture(scope="module", params=list(KINDS))
def fp8(request):
    """The compiled entries, and the dtype."""
    name = request.param
    macros = {"fp8_t": f"__nv_fp8_{name}", "PAIR": f"__nv_fp8x2_{name}", "FOUR": f"__nv_fp8x4_{name}"}
    macros |= {"KIND": f"__NV_{name.upper()}"}
    return host.load(source("eight_bits.cu"), name="eight_bits.cu", defines=macros), np.dtype(KINDS[name])


def every(kind):
    return np.arange(1 << 8 * kind.itemsize, dtype=f"u{kind.itemsize}").view(kind)


def saturating(x, kind):
    """What CUDA's constructors make of x: too large ones, and infinities, become the largest number."""
    largest = float(ml_dtypes.finfo(kind).max)
    return np.clip(x, -largest, largest).astype(kind)


def same(got, want):
    """Equal bits, or NaN both."""
    none = np.isnan(want.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(got.astype(np.float32)), none)
    np.testing.assert_array_equal(got.view(np.uint8)[~none], want.view(np.uint8)[~none])


def by_256(n):
    return -(-n // 256), 256


def test_widening_every_pattern(fp8):
    module, kind = fp8
    x = every(kind)
    y = [np.zeros(256, of) for of in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.bool_)]
    run(module, "widen", 1, 256, *y, x)
    for found in y[:4]:
        np.testing.assert_array_equal(found.astype(np.float64), x.astype(np.float64))
    np.testing.assert_array_equal(y[0].view(np.uint32) >> 31, np.arange(256) >> 7)  # the sign, of zeros and NaN too
    whole = np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=2**31 - 1, neginf=-(2**31))
    np.testing.assert_array_equal(y[4], np.trunc(whole).astype(np.int32))
    np.testing.assert_array_equal(y[5], x.astype(np.float32) != 0)


def test_narrowing_at_and_beside_every_tie(fp8):
    module, kind = fp8
    finite = np.sort(every(kind).astype(np.float64)[np.isfinite(every(kind).astype(np.float64))])
    ties = (finite[1:] + finite[:-1]) / 2
    step = finite[-1] - finite[-2]
    beyond = np.array([finite[-1] + step / 2, finite[-1] + step, 1e5, 1e30, np.inf, np.nan, 1e-30, 0.0])
    x = np.concatenate([finite, ties, beyond, -beyond]).astype(np.float32)
    x = np.concatenate([x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(-np.inf))])
    y = np.zeros(x.size, kind)
    run(module, "narrow", *by_256(x.size), y, x, np.int64(x.size))
    same(y, saturating(x, kind))


def test_from_double_rounds_once_and_both_ways_to_overflow(fp8):
    module, kind = fp8
    rng = np.random.default_rng(0)
    x = rng.standard_normal(100_000) * 2.0 ** rng.integers(-20, 20, 100_000)
    x[:4] = [np.inf, -np.inf, np.nan, 1e300]
    kept, free = np.zeros(x.size, np.uint8), np.zeros(x.size, np.uint8)
    run(module, "from_double", *by_256(x.size), kept, free, x, np.int64(x.size))
    wide = x.astype(np.float32)  # no tie of 8 bits is within a rounding of these
    with np.errstate(over="ignore"):
        same(kept.view(kind), saturating(wide, kind))
        same(free.view(kind), wide.astype(kind))


def test_from_every_half_and_bfloat16(fp8):
    module, kind = fp8
    h, b = every(np.dtype(np.float16)), every(np.dtype(ml_dtypes.bfloat16))
    y, z, raw = np.zeros(1 << 16, kind), np.zeros(1 << 16, kind), np.zeros(1 << 16, np.uint8)
    run(module, "from_16_bits", *by_256(1 << 16), y, z, raw, h, b)
    same(y, saturating(h.astype(np.float32), kind))
    same(z, saturating(b.astype(np.float32), kind))
    same(raw.view(kind), h.astype(np.float32).astype(kind))


def test_two_and_four_together(fp8):
    module, kind = fp8
    x = np.random.default_rng(1).standard_normal((64, 4)).astype(np.float32)
    pair, four = np.zeros((64, 2), kind), np.zeros((64, 4), kind)
    f2, f4 = np.zeros((64, 2), np.float32), np.zeros((64, 4), np.float32)
    run(module, "several", 1, 64, pair, four, f2, f4, x)
    same(four, x.astype(kind))
    same(pair, x[:, :2].astype(kind))
    np.testing.assert_array_equal(f4, x.astype(kind).astype(np.float32))
    np.testing.assert_array_equal(f2, f4[:, :2])
