"""Patterns around and in every buffer. They reveal forbidden writes and reads of a kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel

GUARD = 1 << 16  # bytes before and after every buffer: more than a block of threads can overrun
GUARD_BYTE = 0x7F  # huge or NaN in every floating-point format: a read beyond an input's end shows in the result
OUTPUT_GUARD_BYTE = 0xA5  # differs from GUARD_BYTE, so that a copy of the input's band is seen as a write
POISON_BYTE = 0xFF  # NaN in every floating-point format, -1 in every signed integer, neither 0 nor 1 in bool

Content = int | bytes  # what fills a buffer: one byte, or several; they are repeated

BLOCK = 1_000_003  # random bytes before they repeat; odd, so that the repetitions differ as words

# A byte that gives a large positive number, and one that gives a large negative number (of unsigned ones a small).
_FLOATING = 0x7B, 0xFB  # 61,280 and -65,376 in float16; 1.3e36 and -2.6e36 in float32 and bfloat16; 352 in e4m3
_SIGNED = 0x7B, 0x84
_UNSIGNED = 0xFB, 0x04


@lru_cache(maxsize=4)
def fills(dtype: DType, seed: int) -> tuple[Content, ...]:
    """What an output holds before the runs of a check, in turn.

    A kernel that reads its output before it sets it gives a wrong result for at least one of them. NaN shows sums,
    products and elements that are never written. It hides fmaxf, fminf and `if (!(y > v)) y = v`: fmaxf and atomicMax
    keep the large number, fminf and atomicMin the negative one. Zero shows `y && v` and the minimum of floats as
    unsigned integers. Random bytes differ from element to element, and no kernel knows them.
    """
    signed = dtype.numpy.kind != "u"
    large, negative = _FLOATING if dtype.floating else _SIGNED if signed else _UNSIGNED
    return POISON_BYTE, large, negative, 0, np.random.default_rng(seed).bytes(BLOCK)


def offsets_by_name(kernel: Kernel, offsets: Sequence[int]) -> Mapping[str, int]:
    """The offsets that `Device.place` takes, by array name; 0 for every array if `offsets` is empty."""
    names = kernel.array_names
    return dict(zip(names, offsets or (0,) * len(names), strict=True))
