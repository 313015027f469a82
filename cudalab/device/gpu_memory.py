"""Memory of a GPU: buffers between guard bands, and what the lab's own kernels do to many pieces of memory at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cudalab.device import driver
from cudalab.device.guard import GUARD, GUARD_BYTE

GRANULE = 2 << 20  # bytes: the driver maps memory in such pages, so a kernel can write to the end of the last one
THREADS = 256
BLOCKS = 8  # for each multiprocessor: as many as it holds at once
REGION = np.dtype([("at", np.uint64), ("bytes", np.int64)])


class Buffer:
    """Device memory with guard bands before and after, and the slack behind them, up to the end of the last page."""

    def __init__(self, nbytes: int, stream: Any, offset: int = 0, guard: int = GUARD_BYTE) -> None:
        self.nbytes, self._guard, self._stream = nbytes, guard, stream
        whole = -(-(nbytes + 2 * GUARD + offset) // GRANULE) * GRANULE
        self._memory = driver.pycuda().mem_alloc(whole)
        start = int(self._memory)
        self.ptr = start + GUARD + offset
        end = self.ptr + nbytes
        self.bands = {"before": (start, GUARD + offset), "after": (end, GUARD)}
        self.slack = (end + GUARD, start + whole - end - GUARD)
        self.gaps: list[tuple[int, int]] = []  # (pointer, bytes) between the arrays of this buffer
        self.mend()

    def mend(self) -> None:
        """Write the pattern into both ends and the gaps."""
        for start, nbytes in (*self.bands.values(), self.slack, *self.gaps):
            if nbytes:
                driver.pycuda().memset_d8_async(start, self._guard, nbytes, self._stream)

    def keep_apart(self, places: Sequence[int], nbytes: int) -> None:
        """Write the pattern between arrays of so many bytes at these places, which are pointers."""
        starts, stops = [*sorted(places), self.ptr + self.nbytes], [self.ptr, *(p + nbytes for p in sorted(places))]
        self.gaps = [(stop, start - stop) for stop, start in zip(stops, starts, strict=True) if start > stop]
        self.mend()

    def overrun(self) -> str | None:
        """Where its ends or gaps were written, or None. The stream must be idle."""
        gaps = [("between", gap) for gap in self.gaps]
        for where, (start, nbytes) in (*self.bands.items(), ("after", self.slack), *gaps):
            band = np.empty(nbytes, np.uint8)
            driver.pycuda().memcpy_dtoh(band, start)
            if touched := int((band != self._guard).sum()):
                return f"{touched} bytes {where}"
        return None


class Regions:
    """Pieces of device memory that are filled and digested together, by one launch each, on one stream."""

    def __init__(
        self, lab: Any, stream: Any, pieces: Sequence[tuple[int, int]], multiprocessors: int, key: int
    ) -> None:
        """`pieces` are (pointer, bytes); `multiprocessors`: those of the GPU; `key`: 64 bits, for the digests."""
        self._driver, self._stream, self._count, self._key = driver.pycuda(), stream, len(pieces), key
        self._fill = lab.get_function("fill").prepare("PI")
        self._digest = lab.get_function("digest").prepare("PPQ")
        table = np.array(list(pieces), REGION)
        longest = int(table["bytes"].max(initial=1))
        each = max(BLOCKS * multiprocessors // max(self._count, 1), 1)
        self._grid = (min(max(longest // (4 * THREADS), 1), each), max(self._count, 1))
        self._table = self._driver.mem_alloc(max(table.nbytes, 1))
        self._digests = self._driver.mem_alloc(max(8 * self._count, 1))
        if self._count:
            self._driver.memcpy_htod_async(self._table, table, stream)  # on the stream of the kernels that read it

    def fill(self, word: int) -> None:
        """Enqueue: write `word` (32 bits) again and again into each piece."""
        if self._count:
            self._fill.prepared_async_call(self._grid, (THREADS, 1, 1), self._stream, self._table, word)

    def digests(self) -> list[int]:
        """Wait for all work; a digest of each piece."""
        found = np.zeros(self._count, np.uint64)
        if self._count:
            self._driver.memset_d8_async(int(self._digests), 0, 8 * self._count, self._stream)
            given = self._table, int(self._digests), self._key
            self._digest.prepared_async_call(self._grid, (THREADS, 1, 1), self._stream, *given)
            self._stream.synchronize()
            self._driver.memcpy_dtoh(found, self._digests)
        return found.tolist()
