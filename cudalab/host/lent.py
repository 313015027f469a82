"""The memory of arrays that an executor gets: the arrays' own, or copies where it cannot map it."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cudalab.host.executor import Array
from cudalab.host.reserved import AFTER, BEFORE, Region, make, region_at, region_of


class Loans:
    """The memory that an executor gets for one order: that of the arrays, or copies where it cannot map them."""

    def __init__(self) -> None:
        self.regions: dict[int, Region] = {}  # by number
        self._copies: dict[int, _Copy] = {}  # by address

    def packed(self, one: object) -> object:
        """What stands for an argument in an order."""
        if not isinstance(one, np.ndarray):
            return one
        region, offset = self._place(one if one.size else _NOTHING)
        self.regions[region.number] = region
        return Array(region.number, offset, one.shape, one.strides, one.dtype)

    def _place(self, array: np.ndarray) -> tuple[Region, int]:
        """A region that an executor can map, and where the array begins in it."""
        address = array.ctypes.data
        region = region_at(address)
        if region and region.fd is not None:
            return region, address - region.start
        start = region.start if region else _owner(array).start
        if start not in self._copies:
            self._copies[start] = _of_region(region) if region else _of_memory(_owner(array), array.flags.writeable)
        copy = self._copies[start]
        return copy.region, copy.offset + address - start

    def fill(self) -> None:
        """Copy into the executor's memory what its own must hold."""
        for start, copy in self._copies.items():
            ctypes.memmove(copy.region.start + copy.offset, start, copy.size)

    def empty(self, used: Mapping[int, Sequence[str]]) -> None:
        """Copy back what the kernel may have written, and note the sides of regions that it used."""
        for start, copy in self._copies.items():
            if copy.back:
                ctypes.memmove(start, copy.region.start + copy.offset, copy.size)
        origins = {copy.region.number: copy.origin for copy in self._copies.values()}
        for number, sides in used.items():
            if region := origins.get(number, self.regions.get(number)):
                region.used |= {BEFORE, AFTER}.intersection(sides)


class _Memory(NamedTuple):
    start: int  # an address
    size: int  # bytes


class _Copy(NamedTuple):
    """A region with a copy of memory that no other process can map."""

    region: Region
    memory: mmap.mmap
    offset: int  # of the copy in the region
    size: int
    back: bool  # whether it is copied back
    origin: Region | None = None


def _of_region(origin: Region) -> _Copy:
    """A copy of a large array and its guard bands. It is kept: its memory is given back with the array's."""
    origin.copy = origin.copy or make(origin.size, origin.around, origin.watched)
    return _Copy(region_of(origin.copy), origin.copy, 0, origin.size, True, origin)


def _of_memory(owner: _Memory, back: bool) -> _Copy:
    """A copy of somebody's array, at the same distance from a page."""
    offset = owner.start % mmap.PAGESIZE
    memory = make(offset + owner.size, 0)
    return _Copy(region_of(memory), memory, offset, owner.size, back)


def _owner(array: np.ndarray) -> _Memory:
    """The memory of the array that this one is a view of, so that views of one array stay views of one copy."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    steps = [(length - 1) * stride for length, stride in zip(array.shape, array.strides, strict=True)]
    below, above = -sum(min(step, 0) for step in steps), sum(max(step, 0) for step in steps)
    return _Memory(array.ctypes.data - below, below + above + array.itemsize)


_NOTHING = np.zeros(1)  # stands for an array without elements
