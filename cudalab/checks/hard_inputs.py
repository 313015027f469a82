"""Inputs that leave no value out: every bit pattern of a type, or a sample that misses no exponent.

All are for functions of floating-point arrays whose output elements depend on the elements at their own index alone.
"""

from __future__ import annotations

import numpy as np

from cudalab.base.threads import normal
from cudalab.spec.dtype import DType

EVERY, SAMPLE, PAIRS, EACH = "every", "sample", "pairs", "each"

PART = 1 << 26  # values that are in memory at once
SAMPLE_SIZE = (1 << 24) + 701  # values of a sample, at least: a large array whose end is no whole block or pack
LEAST_SAMPLE = 1 << 10  # values of a sample that misses no exponent of 32 bits
PAIRED = 256  # values that are paired with one another
EACH_SIZE = 1 << 20  # values of 32 bits that each of several inputs takes, at most


def every(dtype: DType, part: int = 0) -> np.ndarray:
    """All bit patterns of `dtype`, NaN and infinities included, 1-D; of more than 2**26 the `part`-th 2**26."""
    n = min(PART, 1 << 8 * dtype.itemsize)
    return np.arange(part * n, part * n + n, dtype=_unsigned(dtype)).view(dtype.numpy)


def parts(dtype: DType) -> int:
    """How many calls of `every` it takes to see all patterns."""
    return max(1, (1 << 8 * dtype.itemsize) // PART)


def sample(dtype: DType, n: int, seed: int) -> np.ndarray:
    """`n` values, 1-D: the special ones, and equally many of each sign and exponent, subnormals included.

    Within an exponent the significands are drawn one from each of equally wide intervals, so none is missed. The last
    value is finite, and so is what most functions make of it.
    """
    fixed = special(dtype)
    bits, mantissa = 8 * dtype.itemsize, (dtype.precision or 1) - 1
    strata = np.arange(1 << (bits - mantissa), dtype=np.uint64)  # sign and exponent, that of NaN and infinity too
    each = -(-(n - len(fixed)) // len(strata))
    place = (np.arange(each) + np.random.default_rng(seed).random((len(strata), each))) / each
    patterns = (strata[:, None] << np.uint64(mantissa)) + (place * (1 << mantissa)).astype(np.uint64)
    drawn = patterns.reshape(-1).astype(_unsigned(dtype)).view(dtype.numpy)
    chosen = drawn[np.linspace(0, drawn.size - 1, n - len(fixed)).astype(np.int64)]
    # At the end numbers near -1, not NaN: outputs are poisoned with NaN, and an end that is not written shows at once.
    return np.concatenate([fixed, np.roll(chosen, chosen.size // 4)])


def pairs(dtype: DType, index: int, seed: int) -> np.ndarray:
    """The `index`-th of two inputs: PAIRED special and sampled values each, in every combination, 1-D.

    In 16 bits every value meets the infinities as well: what has underflowed in one makes NaN of the other's infinity.
    """
    chosen = sample(dtype, PAIRED, seed)
    found = [_combined(chosen, chosen)[index]]
    if dtype.itemsize == 2:
        together = _combined(np.array([-np.inf, np.inf], dtype.numpy), every(dtype))
        found += [together[index], together[1 - index]]
    return np.concatenate(found)


def pairs_size(dtype: DType) -> int:
    """How many elements `pairs` has."""
    return PAIRED**2 + (4 << 16 if dtype.itemsize == 2 else 0)


def _combined(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat(a, b.size), np.tile(b, a.size)


def each(dtype: DType, n: int, count: int, index: int, seed: int) -> np.ndarray:
    """The `index`-th of `count` inputs that take `n` values each, one after the other, 1-D, `count` times `n` long.

    All values of 16 bits, of others a sample. Where it is another's turn they are standard normal.
    """
    rng = np.random.default_rng((seed, index))
    parts = [normal((n,), dtype.numpy, rng) for _ in range(count)]
    parts[index] = every(dtype) if dtype.itemsize == 2 else sample(dtype, n, seed)
    return np.concatenate(parts)


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
