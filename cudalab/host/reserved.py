"""Memory of arrays between address space that belongs to nobody, which takes no memory until it is touched.

It may be a file in memory, which the process that executes a kernel maps too (`cudalab.host.executor`).
"""

from __future__ import annotations

import ctypes
import fcntl
import math
import mmap
import os
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from weakref import WeakKeyDictionary, finalize

import numpy as np

from cudalab.base.errors import Unavailable
from cudalab.host.module import REACH

NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)  # Python 3.12 has no name for it; the value is that of Linux
MAP_FIXED = 0x10
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL  # a page that is gone would end who reads it
BEFORE, AFTER = "before", "after"


@dataclass(eq=False)
class Region:
    """Memory for arrays, with address space on both sides that belongs to nobody.

    Attributes:
        start: the address of its memory.
        size: bytes of its memory: whole pages.
        around: bytes on each side: whole pages.
        watched: whether a use of these bytes is looked for.
        fd: of the file in memory that it is; None for memory that no other process can map.
        used: the sides that another process has used.
        number: its own, among the regions of this process.
        copy: a region that another process can map, where this one is none.
    """

    start: int
    size: int
    around: int
    watched: bool = False
    fd: int | None = None
    used: set[str] = field(default_factory=set)
    number: int = field(default_factory=count(1).__next__)
    copy: mmap.mmap | None = None

    def touched(self) -> set[str]:
        """The sides of it that somebody in this process used."""
        if not self.watched:
            return set()
        pages = self.around // mmap.PAGESIZE
        found = _resident(self.start - self.around, 2 * pages + self.size // mmap.PAGESIZE)
        sides = {BEFORE: found[:pages], AFTER: found[len(found) - pages :]}
        return {side for side, memory in sides.items() if memory.any()}


def reserved(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Zeros of this shape; nothing else lies within REACH bytes of them. Raises Unavailable without address space."""
    size = math.prod(shape) * dtype.itemsize
    return np.frombuffer(make(size, REACH), np.uint8, size, REACH).view(dtype).reshape(shape)


def make(size: int, around: int, watched: bool = False, shared: bool = True, fd: int | None = None) -> mmap.mmap:
    """Make a region of zeros, which `region_of` describes; it is given back with the last array on it.

    Its memory begins at byte `around`, a number of whole pages, and has `size` bytes or some more. `shared`: as a file
    in memory. `fd`: such a file of another process, which belongs to the region from now on.
    Raises Unavailable without memory or address space.
    """
    size = max(1, -(-size // mmap.PAGESIZE)) * mmap.PAGESIZE
    memory = space(around + size + around)
    start = np.frombuffer(memory, np.uint8).ctypes.data + around
    if shared:
        try:
            if fd is None:
                fd = os.memfd_create("cudalab", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
                os.ftruncate(fd, size)
                fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
            finalize(memory, os.close, fd)
            _overlay(start, size, fd)
        except OSError as error:
            raise Unavailable(f"cannot share {size:,} bytes of memory between processes: {error}") from None
    _regions[memory] = Region(start, size, around, watched, fd)
    return memory


def region_of(memory: mmap.mmap) -> Region:
    return _regions[memory]


def region_at(address: int) -> Region | None:
    """The region whose memory has this address; None for memory of others."""
    return next((r for r in [*_regions.values()] if r.start <= address < r.start + r.size), None)


def numbers() -> set[int]:
    """The numbers of the regions that there are."""
    return {region.number for region in [*_regions.values()]}


_regions: WeakKeyDictionary[mmap.mmap, Region] = WeakKeyDictionary()


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
    return bool(_resident(first, pages).any())


def _resident(first: int, pages: int) -> np.ndarray:
    """By page from this address on, whether it has memory."""
    found = np.zeros(pages, np.uint8)
    asked = _libc().mincore(
        ctypes.c_void_p(first), ctypes.c_size_t(pages * mmap.PAGESIZE), ctypes.c_void_p(found.ctypes.data)
    )
    return found & 1 if asked == 0 else np.zeros(0, np.uint8)


def _overlay(start: int, size: int, fd: int) -> None:
    """Map a file over a part of a private map. Raises OSError."""
    if _libc().mmap(start, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | MAP_FIXED, fd, 0) != start:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    return libc
