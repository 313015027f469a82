"""Arrays of billions of elements that take no memory until they are touched: address space is reserved, no more."""

from __future__ import annotations

import math
import mmap

import numpy as np

from cudalab.base.errors import Unavailable
from cudalab.host.module import REACH

NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)  # Python 3.12 has no name for it; the value is that of Linux


def reserved(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Zeros of this shape; nothing else lies within REACH bytes of them. Raises Unavailable without address space."""
    size = math.prod(shape) * dtype.itemsize
    try:
        space = mmap.mmap(-1, size + 2 * REACH + mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE)
    except (OSError, ValueError, OverflowError) as error:
        raise Unavailable(f"cannot reserve {size:,} bytes of address space: {error}") from None
    return np.frombuffer(space, np.uint8, size, REACH).view(dtype).reshape(shape)
