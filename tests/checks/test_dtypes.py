"""Inputs and comparisons in every dtype. Kernels of each dtype are in tests/data/kernels (test_as_written.py)."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from cudalab.checks import hard_inputs, parity
from cudalab.spec.dtype import DTYPES, dtype
from cudalab.spec.inputs import draw
from cudalab.spec.kernel import Budget

# ---- inputs and comparisons ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DTYPES)
def test_inputs_are_drawn_in_every_dtype(name):
    kind = dtype(name)
    x = draw((40, 50), kind.numpy, np.random.default_rng(0))
    assert (x.dtype, x.shape) == (kind.numpy, (40, 50))
    assert np.isfinite(x.astype(np.complex128)).all()
    values = set(x.ravel().tolist())
    assert values == {False, True} if name == "bool" else len(values) > 60
    assert (x == draw((40, 50), kind.numpy, np.random.default_rng(0))).all()
    if kind.complex:
        assert (
            0.8 < x.real.std() < 1.2
            and 0.8 < x.imag.std() < 1.2
            and abs(np.corrcoef(x.real.ravel(), x.imag.ravel())[0, 1]) < 0.1
        )


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_hard_values_of_8_bits_are_all_patterns(name):
    kind = dtype(name)
    assert hard_inputs.every(kind).view(np.uint8).tolist() == list(range(256))
    both = [hard_inputs.pairs(kind, index, 0).view(np.uint8) for index in (0, 1)]
    assert len(set(zip(*both, strict=True))) == hard_inputs.pairs_size(kind) == 1 << 16
    assert hard_inputs.each(kind, 1000, 2, 1, 0).shape == (2000,)


def test_hard_values_of_complex_numbers_pair_those_of_their_parts():
    kind = dtype("complex64")
    x = hard_inputs.sample(kind, 5000, 0)
    assert x.shape == (5000,) and x.dtype == np.complex64
    for part in (x.real, x.imag):
        assert np.isnan(part).any() and np.isposinf(part).any() and np.isneginf(part).any() and (part == 0).any()
    assert (np.isinf(x.real) & np.isnan(x.imag)).any()
    assert hard_inputs.pairs(kind, 0, 0).shape == (hard_inputs.pairs_size(kind),)


def judged(name, got, want, ulp=0.5):
    kind = dtype(name)
    return parity.compare(np.asarray(got, kind.numpy), np.asarray(want), kind, Budget(ulp))


def test_complex_numbers_are_judged_by_the_ulp_of_their_modulus():
    one, step = 1 + 1e-9j, 2.0**-23
    assert judged("complex64", [one + step * 1j], [one], 1.01).ok  # no number of ULP of the imaginary part allows this
    found = judged("complex64", [one + 3 * step * 1j], [one], 2)
    assert not found.ok and found.max_ulp == pytest.approx(3, rel=1e-3)
    assert "[0] got 1+3.5" in found.message and "want 1+1e-09j" in found.message


@pytest.mark.parametrize(
    ("got", "want", "ok"),
    [
        (complex(np.inf, np.nan), complex(np.inf, 3), True),
        (complex(np.nan, 1), complex(2, np.nan), True),
        (complex(np.nan, 1), complex(2, 1), False),
        (complex(np.inf, 1), complex(2, 1), False),
        (complex(np.inf, 1), complex(np.nan, 1), False),
        (complex(np.inf, 0), complex(1e39, 0), True),
        (complex(np.inf, 1e38), complex(3.3e38, 3.3e38), True),  # its modulus overflows
        (complex(3.3e38, 0), complex(1e39, 0), False),
    ],
)
def test_complex_infinities_and_nan(got, want, ok):
    assert judged("complex64", [got], [want], 4).ok == ok


def test_a_complex_reference_of_a_real_output_is_refused():
    found = judged("float32", [1.0], [1 + 1j])
    assert not found.ok and "complex values for an output of float32" in found.message


def test_bool_is_exact_and_what_is_neither_0_nor_1_is_told():
    want = np.array([True, False, True])
    assert judged("bool", want, want).ok
    assert not judged("bool", ~want, want).ok
    found = parity.compare(np.array([1, 0, 255], np.uint8).view(np.bool_), want, dtype("bool"), Budget(0))
    assert not found.ok and "[2] got 255, want 1" in found.message and "was every element written?" in found.message


@pytest.mark.parametrize(
    ("name", "got", "want", "ok"),
    [
        ("float8_e4m3fn", 448, 1000.0, True), ("float8_e4m3fn", np.nan, 1000.0, True),
        ("float8_e4m3fn", -448, 1000.0, False),
        ("float8_e4m3fn", 448, np.inf, True), ("float8_e4m3fn", np.nan, 448.0, False),
        ("float8_e4m3fn", 416, 1000.0, False),
        ("float8_e4m3fn", 448, np.nan, False), ("float8_e5m2", np.inf, 1e6, True), ("float8_e5m2", 57344, 1e6, True),
        ("float8_e5m2", np.inf, 57344.0, False), ("float8_e5m2", np.nan, np.nan, True),
    ],
)  # fmt: skip
def test_both_ways_of_an_8_bit_float_to_overflow_are_right(name, got, want, ok):
    with np.errstate(all="ignore"):
        found = judged(name, [got], [want])
    assert found.ok == ok
    assert not ok or found.max_ulp == 0


def test_64_bit_integers_of_different_signs_are_compared_exactly():
    top = np.uint64(2**64 - 1)
    assert judged("uint64", [top], np.array([2**64 - 1], np.uint64)).ok
    for want in (np.array([-1]), np.array([2**63 - 1]), np.array([2**64 - 2], np.uint64)):
        assert not judged("uint64", [top], want).ok
    assert not judged("int64", [2**53], np.array([2**53 + 1], np.uint64)).ok


def test_ulp_of_the_small_formats():
    for name in ("float8_e4m3fn", "float8_e5m2"):
        x = np.sort(hard_inputs.every(dtype(name))[:128].astype(np.float64))
        x = x[np.isfinite(x)]
        np.testing.assert_array_equal(np.diff(x), dtype(name).ulp(x[:-1]))
        assert float(ml_dtypes.finfo(dtype(name).numpy).max) == x[-1]
