"""Inputs with hard values: every bit pattern of a dtype, or a sample with every sign and exponent.

They are for pointwise functions of floating-point arrays: an output element depends only on the input elements at the
same index. All arrays are 1-D.
"""

from __future__ import annotations

import math

import numpy as np

from cudalab.base.errors import InputError
from cudalab.spec.dimensions import REST
from cudalab.spec.dtype import DTYPES, DType
from cudalab.spec.inputs import draw
from cudalab.spec.kernel import Kernel, Shape

# The kinds of hard inputs, as a `Group` names them.
EVERY = "every"  # one input: all bit patterns
SAMPLE = "sample"  # one input: special values, and a sample with every sign and exponent
PAIRS = "pairs"  # two inputs: special and sampled values in every combination
EACH = "each"  # several inputs: each in turn takes all or sampled values while the others are standard normal

PART = 1 << 26  # values that are in memory at once
SAMPLE_SIZE = (1 << 24) + 701  # values of a sample by default: a large array that ends in a partial block and pack
LEAST_SAMPLE = 1 << 10  # the smallest sample that has every sign and exponent of float32
PAIRED = 256  # values of each input that `pairs` combines
EACH_SIZE = 1 << 20  # float32 values that `each` takes for one input, at most


def shape(kernel: Kernel, n: int, exact: bool = True) -> Shape | None:
    """A shape of `n` elements that all inputs of a pointwise kernel may have, rows about as long as they are many.

    None where there is none. Unless it is `exact`, the shape may have fewer elements.
    """
    given = kernel.shapes.get(kernel.input_names[0], REST)
    words = str(given).split()
    for chosen in ([word for word in words if word != REST] or words, words):
        fixed = math.prod(int(word) for word in chosen if word.isdigit())
        free = sum(not word.isdigit() for word in chosen)
        usual, most = n.bit_length() // 2, n.bit_length()
        for power in (usual, *range(usual - 1, -1, -1), *range(usual + 1, most)) if free > 1 else range(most):
            found = _arranged(chosen, free, n // fixed >> power, 1 << power)
            if (math.prod(found) == n or not exact) and _taken(kernel, found):
                return found
    return None


def _arranged(words: list[str], free: int, rows: int, cols: int) -> Shape:
    """`rows` x `cols` elements in the last two of the `free` dimensions, whose words are no numbers, or in the one."""
    lengths = iter([*(1,) * (free - 2), rows, cols] if free > 1 else [rows * cols])
    return tuple(int(word) if word.isdigit() else next(lengths) for word in words)


def _taken(kernel: Kernel, shape: Shape) -> bool:
    try:
        if kernel.shapes:
            kernel.accepts_call(dict.fromkeys(kernel.input_names, shape))
        return True
    except InputError:
        return False


def every(dtype: DType, part: int = 0) -> np.ndarray:
    """All bit patterns of `dtype`, NaN and infinities included; if they are more than PART, part number `part`."""
    n = min(PART, 1 << 8 * dtype.itemsize)
    return np.arange(part * n, part * n + n, dtype=_unsigned(dtype)).view(dtype.numpy)


def parts(dtype: DType) -> int:
    """The number of parts in which `every` gives all patterns."""
    return max(1, (1 << 8 * dtype.itemsize) // PART)


def sample(dtype: DType, n: int, seed: int) -> np.ndarray:
    """`n` values: the special ones, then equally many for each sign and exponent, subnormals included.

    The significands of one exponent are stratified: one random value from each of equally wide intervals. The last
    values are near -1, so most functions are finite there. Of 8 bits all patterns, repeated; of complex numbers both
    parts are samples, and the first ones pair their special values.
    """
    if dtype.itemsize == 1:
        return np.resize(every(dtype), n)
    if dtype.complex:
        return _complex_sample(dtype, n, seed)
    fixed = special(dtype)
    bits, mantissa = 8 * dtype.itemsize, (dtype.precision or 1) - 1
    strata = np.arange(1 << (bits - mantissa), dtype=np.uint64)  # sign and exponent, that of NaN and infinity too
    each = -(-(n - len(fixed)) // len(strata))
    place = (np.arange(each) + np.random.default_rng(seed).random((len(strata), each))) / each
    patterns = (strata[:, None] << np.uint64(mantissa)) + (place * (1 << mantissa)).astype(np.uint64)
    drawn = patterns.reshape(-1).astype(_unsigned(dtype)).view(dtype.numpy)
    chosen = drawn[np.linspace(0, drawn.size - 1, n - len(fixed)).astype(np.int64)]
    # The rotation puts numbers near -1 at the end. The poison of outputs is NaN: an end that is not written is seen.
    return np.concatenate([fixed, np.roll(chosen, chosen.size // 4)])


def pairs(dtype: DType, index: int, seed: int) -> np.ndarray:
    """Input `index` (0 or 1) of two: PAIRED special and sampled values of each input, in every combination.

    For 16-bit dtypes, every value is also combined with both infinities: 0 * inf is NaN where a factor underflows.
    """
    chosen = sample(dtype, PAIRED, seed)  # of 8 bits these are all patterns
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
    """Input `index` of `count`, `count * n` values long: its own `n` hard values, standard normal values elsewhere.

    The `index`-th stretch of `n` has the hard values: all bit patterns of 8 or 16 bits, a `sample` of more.
    """
    rng = np.random.default_rng((seed, index))
    parts = [draw((n,), dtype.numpy, rng) for _ in range(count)]
    parts[index] = every(dtype) if dtype.itemsize == 2 else sample(dtype, n, seed)
    return np.concatenate(parts)


def _complex_sample(dtype: DType, n: int, seed: int) -> np.ndarray:
    part, rng = DTYPES[dtype.part], np.random.default_rng(seed)
    real, imaginary = _combined(*(special(part),) * 2)
    if (rest := n - real.size) <= 0:
        chosen = rng.permutation(real.size)[:n]
        real, imaginary = real[chosen], imaginary[chosen]
    elif rest < LEAST_SAMPLE:
        real, imaginary = np.resize(real, n), np.resize(imaginary, n)
    else:
        more = sample(part, rest, seed + 1)
        real = np.concatenate([real, sample(part, rest, seed)])
        imaginary = np.concatenate([imaginary, more[rng.permutation(rest)]])
    found = np.empty(n, dtype.numpy)
    found.real, found.imag = real, imaginary
    return found


def special(dtype: DType) -> np.ndarray:
    """Of both signs: zero, one and its neighbours, infinity, quiet and signalling NaN, smallest and largest numbers."""
    bits, mantissa = 8 * dtype.itemsize, (dtype.precision or 1) - 1
    infinity = (1 << (bits - 1)) - (1 << mantissa)
    one = (infinity >> 1) & ~((1 << mantissa) - 1)
    positive = [0, 1, (1 << mantissa) - 1, 1 << mantissa, one - 1, one, one + 1, infinity - 1, infinity, infinity + 1,
                infinity + (1 << (mantissa - 1)), (1 << (bits - 1)) - 1]  # fmt: skip
    sign = 1 << (bits - 1)
    return np.array([p | s for p in positive for s in (0, sign)], _unsigned(dtype)).view(dtype.numpy)


def _unsigned(dtype: DType) -> np.dtype:
    return np.dtype(f"u{dtype.itemsize}")
