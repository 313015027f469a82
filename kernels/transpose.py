"""Transpose of a matrix."""

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks, counted_sides, deep_grid
from cudalab.kernels._h200 import MULTIPROCESSORS

TILE, STEP = 32, 8  # as in the .cu


def reference(x):
    return np.ascontiguousarray(x.T)


def covered(x, y, across, down, threads):
    """One block a tile: `across` tiles in a row, `down` rows of tiles."""
    return Launch(deep_grid(down, across), threads, (x, y, *counted_sides(x.shape)))


def tile(x, y):
    rows, cols = x.shape
    return covered(x, y, blocks(cols, TILE), blocks(rows, TILE), (TILE, STEP))


def tiles_of(x, side):
    """How many tiles of `side` words of 4 bytes cover x: in a row of tiles, and rows of tiles."""
    rows, cols = x.shape
    return blocks(cols, side), blocks(rows, side * 4 // x.dtype.itemsize)


def vec(x, y):
    across, down = tiles_of(x, 64)
    threads = 512 if x.dtype.itemsize == 4 else 256  # MANY of the .cu
    if across * down < MULTIPROCESSORS:  # some multiprocessors would have nothing to do
        (across, down), threads = tiles_of(x, 32), 128
    return covered(x, y, across, down, (threads,))


def composite(x):
    return x.t().contiguous()


def cupy_composite(x):
    import cupy

    return cupy.ascontiguousarray(x.T)


EDGES = (  # packs need rows and columns that are multiples of 8: both, one or none of them are
    (1, 1), (1, 33), (31, 1), (32, 32), (33, 64), (64, 33), (64, 128), (136, 200), (68, 132), (129, 127), (42, 84),
    (1528, 712), (1531, 709), (0, 7), (7, 0),  # the first two get tiles of 64 words, some of them cut
)  # fmt: skip
EXACT = Budget(0, why="elements are moved, not computed")

transpose = Kernel(
    file=__file__,
    summary="y[c][r] = x[r][c], row-major matrix",
    dtypes=("float32", "float16", "bfloat16"),
    sizes={"small": (256, 384), "large": (4096, 8192), "xlarge": (16384, 8192)},
    edges=EDGES,
    reference=reference,
    entries={"transpose_plain": tile, "transpose_tile": tile, "transpose_vec": vec},
    budgets={"float32": EXACT, "float16": EXACT, "bfloat16": EXACT},
    shapes={"x": "rows cols", "y": "cols rows"},
    torch=composite,
    torch_native=composite,
    cupy=cupy_composite,
    triton="triton/transpose.py",
)
