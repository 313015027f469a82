"""cuda::atomic, cuda::atomic_ref and cuda::std."""

from __future__ import annotations

import numpy as np
import pytest
from on_cpu import ORDERS, run

CU = "atomic_ref.cu"


@pytest.mark.parametrize("order", ORDERS)
def test_a_histogram_and_extremes(module, rng, order):
    x, bins = rng.integers(0, 256, 10_000, dtype=np.uint8), np.zeros(256, np.int32)
    run(module, "histogram", 5, 96, x, np.int32(x.size), bins, order=order)
    np.testing.assert_array_equal(bins, np.bincount(x, minlength=256))
    values, y = rng.integers(-99, 99, 1000).astype(np.float32), np.array([1e9, -1e9, 0], np.float32)
    run(module, "extremes", 8, 128, values, np.int32(1000), y, order=order)
    assert list(y) == [values.min(), values.max(), values.sum()]


@pytest.mark.parametrize("order", ORDERS)
def test_waiting_for_a_value(module, order):
    values, y = np.zeros(21, np.int32), np.zeros(2, np.int32)
    run(module, "relay", 20, 32, values, np.zeros(1, np.int32), order=order)
    np.testing.assert_array_equal(values, 2 ** np.arange(21) - 1)
    run(module, "in_block", 1, 96, y, order=order)
    assert list(y) == [sum(range(96)) * 2 + 1, sum(range(96)) * 2]


def test_bits_and_the_standard_library(module):
    y = np.array([2**32 - 1, 0, 0, 0, 0, 1], np.uint32)
    run(module, "bits", 1, 32, y)
    assert list(y) == [0, 2**32 - 1, 0, 32, 2**32 - 32, 0]
    values = np.zeros(11, np.float32)
    run(module, "standard", 1, 1, values)
    assert list(values) == [1, 2, 3, 9, 13, 1, 3, 1, np.float32(65504 + 2**-7), 1, 3]
