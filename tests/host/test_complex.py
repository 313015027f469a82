"""Complex numbers of the CPU executor: <cuComplex.h>, cuda::std::complex, thrust::complex."""

from __future__ import annotations

import numpy as np
import pytest
from on_cpu import run

CU, N = "complex_numbers.cu", 200


def drawn(rng, kind, spread):
    parts = rng.standard_normal((N, 2)) * 2.0 ** rng.integers(-spread, spread, (N, 1))
    return parts.astype(np.dtype(kind).type(0).real.dtype).reshape(-1).view(kind)


@pytest.mark.parametrize(("entry", "kind", "spread"), [("singles", np.complex64, 15), ("doubles", np.complex128, 120)])
def test_functions_of_cucomplex(module, rng, entry, kind, spread):
    a, b = drawn(rng, kind, spread), drawn(rng, kind, spread)
    y, length = np.zeros((7, N), kind), np.zeros(N, a.real.dtype)
    run(module, entry, 1, 256, y, length, a, b, np.int32(N))
    wide = np.clongdouble
    p, q = a.astype(wide), b.astype(wide)
    eps = np.finfo(kind).eps
    for found, want in zip(y, (p + q, p - q, p * q, p / q, p.conj(), p * q + p, 1j * p.conj()), strict=True):
        assert (abs(found - want) <= 8 * eps * (abs(want) + abs(p) + abs(p * q))).all()
    np.testing.assert_allclose(length, abs(p).astype(length.dtype), rtol=4 * eps)


def test_lengths_and_quotients_of_huge_numbers_do_not_overflow(module):
    a = np.full(N, 2e38 + 1e38j, np.complex64)
    y, length = np.zeros((7, N), np.complex64), np.zeros(N, np.float32)
    run(module, "singles", 1, 256, y, length, a, a, np.int32(N))
    np.testing.assert_allclose(length, np.float32(np.hypot(2e38, 1e38)), rtol=1e-6)
    np.testing.assert_allclose(y[3], 1, rtol=1e-6)


def test_classes_of_libcudacxx_and_thrust(module, rng):
    a, b = (drawn(rng, np.complex64, 1)[:64] for _ in "ab")
    y = np.zeros(64, np.complex64)
    run(module, "classes", 1, 64, y, a, b)
    np.testing.assert_allclose(y, a * b + np.exp(a) * abs(b), rtol=1e-5, atol=1e-5)
