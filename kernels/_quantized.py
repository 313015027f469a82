"""What the specs of rows in 8 bits share: `common/quantized_row.cuh`. An 8-bit row is q, its scale is a float32."""

from __future__ import annotations

import numpy as np

from cudalab import Budget, Launch, counted, draw
from cudalab.kernels._rows import clustered, shared, threads_of

LEAST = 2.0**-100  # scale; a row of zeros has it
THREADS = 256  # of a block of the plain entry
HELD = 32  # elements that a thread keeps in registers

SIZES = {"small": (128, 4096), "large": (8192, 4096), "xlarge": (32768, 4096), "long": (4096, 14336)}
EDGES = (  # the long ones at the end: every number of packs a thread can keep, in each dtype, and more than it keeps
    (1, 1), (5, 3), (3, 31), (6, 33), (9, 128), (2, 257), (3, 1023), (2, 1032), (2, 4099), (2, 16376), (1, 24568),
    (1, 33008), (0, 8),
)  # fmt: skip
QUOTIENT = Budget(0.5, why="one division")
EXACT = Budget(0, why="both quotients are correctly rounded in float32, as in the reference")
PEERS = Budget(1, why="a quotient that is 1 ULP of float32 off may be rounded to a neighbour")
RECIPROCAL = Budget(2, why="PyTorch multiplies by the rounded reciprocal of a constant, Triton's division has 2 ULP")


def scale(x, largest):
    """The scale of each row, in float32: what `largest` stands for."""
    return np.maximum(np.abs(x).max(axis=1) / largest, LEAST)


def quotient(x, scale):
    """x / scale, rounded to float32 as the kernel and PyTorch divide."""
    return (x / scale[:, None]).astype(np.float32)


def rows_of_all_sizes(shape, dtype, rng):
    """Normal values of several magnitudes, and a row of zeros."""
    x = draw(shape, np.dtype(np.float32), rng)
    x *= (10.0 ** rng.integers(-3, 4, (shape[0], 1))).astype(np.float32)
    x[1:2] = 0
    return {"x": x.astype(dtype)}


def entries(name):
    """The launches of the entries NAME_plain, NAME_vec and NAME_cluster."""
    return {f"{name}_plain": _plain, f"{name}_vec": _vec, f"{name}_cluster": _cluster}


def _plain(x, scale, q):
    rows, cols = x.shape
    return Launch((rows,), (THREADS,), (x, q, scale, np.int64(cols)))


def _vec(x, scale, q):
    rows, cols = x.shape
    threads = threads_of(rows, cols, x.dtype.itemsize, HELD)
    return Launch(*shared(rows, threads), (x, q, scale, np.int64(rows), counted(cols, np.int32)))


def _cluster(x, scale, q):
    rows, cols = x.shape
    return clustered(rows, cols, HELD, (x, q, scale, np.int64(rows), counted(cols, np.int32)))
