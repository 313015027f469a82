"""Address space that takes no memory until it is touched: for arrays of billions of elements, and around all others."""

from __future__ import annotations

import ctypes
import math
import mmap

import numpy as np

from cudalab.base.errors import Unavailable
from cudalab.host.module import REACH

NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)  # Python 3.12 has no name for it; the value is that of Linux


def reserved(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Zeros of this shape; nothing else lies within REACH bytes of them. Raises Unavailable without address space."""
    size = math.prod(shape) * dtype.itemsize
    return np.frombuffer(space(size + 2 * REACH), np.uint8, size, REACH).view(dtype).reshape(shape)


def space(size: int) -> mmap.mmap:
    """Zeros that begin at a page; their memory is given back with the last array on it. Raises as `reserved` does."""
    try:
        return mmap.mmap(-1, size + mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE)
    except (OSError, ValueError, OverflowError) as error:
        raise Unavailable(f"cannot reserve {size:,} bytes of address space: {error}") from None


def touched(array: np.ndarray) -> bool:
    """Whether a part of reserved address space, without gaps, has memory: somebody wrote or read there.

    g++ calls nothing before a store of what a function returns as a struct, so not each write is seen.
    """
    first = array.ctypes.data // mmap.PAGESIZE * mmap.PAGESIZE
    pages = -(-(array.ctypes.data + array.nbytes - first) // mmap.PAGESIZE)
    found = np.zeros(pages, np.uint8)
    asked = ctypes.CDLL(None).mincore(
        ctypes.c_void_p(first), ctypes.c_size_t(pages * mmap.PAGESIZE), ctypes.c_void_p(found.ctypes.data)
    )
    return asked == 0 and bool((found & 1).any())
