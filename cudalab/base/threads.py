"""Process large arrays in chunks on all cores. NumPy and SciPy release the GIL, so threads run in parallel."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from cudalab.base import float_mode

CHUNK = 1 << 18  # elements: a few float64 temporaries of this length fit into the cache of a core
T = TypeVar("T")


def cores() -> int:
    """Return the number of cores that this process may use; containers and taskset limit it."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def chunks(n: int, length: int = CHUNK) -> Iterator[slice]:
    """Return slices that together cover range(n)."""
    return (slice(lo, min(lo + length, n)) for lo in range(0, n, length))


def each(work: Callable[[slice], T], n: int, length: int = CHUNK) -> list[T]:
    """Call `work` for every chunk of range(n) on all cores; return the results in the order of the chunks."""
    if n <= length:
        return [work(s) for s in chunks(n, length)]
    with ThreadPoolExecutor(cores(), initializer=float_mode.restore) as pool:
        return list(pool.map(work, chunks(n, length)))


def normal(shape: tuple[int, ...], dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """Return standard normal values, generated in float32 (float64 for float64) and rounded to `dtype`.

    Each chunk has its own child generator: the values do not depend on the number of cores.
    """
    out = np.empty(shape, dtype)
    flat = out.reshape(-1)
    wide = np.dtype(np.float64) if dtype == np.float64 else np.dtype(np.float32)
    slices = list(chunks(flat.size))
    generators = dict(zip((s.start for s in slices), rng.spawn(len(slices)), strict=True))

    def fill(s: slice) -> None:
        flat[s] = generators[s.start].standard_normal(s.stop - s.start, dtype=wide)

    each(fill, flat.size)
    return out
