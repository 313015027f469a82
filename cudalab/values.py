"""Inputs that leave no value out: every bit pattern of a type, or a sample that misses no exponent.

All are for functions of floating-point arrays whose output elements depend on the elements at their own index alone.
"""

from __future__ import annotations

import numpy as np

from cudalab.dtypes import DType

EVERY, SAMPLE, PAIRS = "every", "sample", "pairs"

PART = 1 << 26  # values that are in memory at once
SAMPLE_SIZE = 1 << 24  # values of a sample, at least
PAIRED = 256  # values that are paired with one another


def every(dtype: DType, part: int = 0) -> np.ndarray:
    """All bit patterns of `dtype`, NaN and infinities included, 1-D; of more than 2**26 the `part`-th 2**26."""
    n = min(PART, 1 << 8 * dtype.itemsize)
    return np.arange(part * n, part * n + n, dtype=_unsigned(dtype)).view(dtype.numpy)


def parts(dtype: DType) -> int:
    """How many calls of `every` it takes to see all patterns."""
    return max(1, (1 << 8 * dtype.itemsize) // PART)


def sample(dtype: DType, n: int, seed: int) -> np.ndarray:
    """`n` values, 1-D: the special ones, and equally many of each sign and exponent, subnormals included.

    Within an exponent the significands are drawn one from each of equally wide intervals, so none is missed.
    """
    fixed = special(dtype)
    bits, mantissa = 8 * dtype.itemsize, (dtype.precision or 1) - 1
    strata = np.arange(1 << (bits - mantissa), dtype=np.uint64)  # sign and exponent, that of NaN and infinity too
    each = -(-(n - len(fixed)) // len(strata))
    place = (np.arange(each) + np.random.default_rng(seed).random((len(strata), each))) / each
    patterns = (strata[:, None] << np.uint64(mantissa)) + (place * (1 << mantissa)).astype(np.uint64)
    drawn = patterns.reshape(-1).astype(_unsigned(dtype)).view(dtype.numpy)
    return np.concatenate([fixed, drawn[np.linspace(0, drawn.size - 1, n - len(fixed)).astype(np.int64)]])


def pairs(dtype: DType, count: int, index: int, seed: int) -> np.ndarray:
    """The `index`-th of `count` inputs that meet in every combination: PAIRED special and sampled values each, 1-D."""
    chosen = sample(dtype, PAIRED, seed)
    shape = [PAIRED if axis == index else 1 for axis in range(count)]
    return np.broadcast_to(chosen.reshape(shape), [PAIRED] * count).reshape(-1)


def special(dtype: DType) -> np.ndarray:
    """Both zeros, ones, infinities, NaNs quiet and signalling, the ends of the normal and subnormal numbers, 1-D."""
    bits, mantissa = 8 * dtype.itemsize, (dtype.precision or 1) - 1
    infinity = (1 << (bits - 1)) - (1 << mantissa)
    one = (infinity >> 1) & ~((1 << mantissa) - 1)
    positive = [0, 1, (1 << mantissa) - 1, 1 << mantissa, one - 1, one, one + 1, infinity - 1, infinity, infinity + 1,
                infinity + (1 << (mantissa - 1)), (1 << (bits - 1)) - 1]  # fmt: skip
    sign = 1 << (bits - 1)
    return np.array([p | s for p in positive for s in (0, sign)], _unsigned(dtype)).view(dtype.numpy)


def _unsigned(dtype: DType) -> np.dtype:
    return np.dtype(f"u{dtype.itemsize}")
