"""Transpose of a matrix."""

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks, counted, deep_grid
from cudalab.spec.launch import MULTIPROCESSORS

TILE, STEP = 32, 8  # as in the .cu
BEYOND = 2**18  # rows or columns that the last blocks count beyond the matrix


def reference(x):
    return np.ascontiguousarray(x.T)


def covered(x, y, across, down, threads):
    """A block a tile, of so many in a row and so many rows."""
    sides = (counted(n, np.uint32, BEYOND) for n in x.shape)
    return Launch(deep_grid(down, across), threads, (x, y, *sides))


def tile(x, y):
    rows, cols = x.shape
    return covered(x, y, blocks(cols, TILE), blocks(rows, TILE), (TILE, STEP))


def tiles_of(x, side):
    """Tiles of `side` words of 4 bytes: in a row of them, and rows."""
    rows, cols = x.shape
    return blocks(cols, side), blocks(rows, side * 4 // x.dtype.itemsize)


def vec(x, y):
    across, down = tiles_of(x, 64)
    threads = 512 if x.dtype.itemsize == 4 else 256  # MANY of the .cu
    if across * down < MULTIPROCESSORS:  # some would have nothing to do
        (across, down), threads = tiles_of(x, 32), 128
    return covered(x, y, across, down, (threads,))


def composite(x):
    return x.t().contiguous()


def cupy_composite(x):
    import cupy

    return cupy.ascontiguousarray(x.T)


EDGES = (  # packs need rows and columns that are multiples of 8: both are, one of them is, none is
    (1, 1), (1, 33), (31, 1), (32, 32), (33, 64), (64, 33), (64, 128), (136, 200), (68, 132), (129, 127), (42, 84),
    (1528, 712), (1531, 709), (0, 7), (7, 0),  # the first two are enough for tiles of 64 words, some of them cut
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
    output_shape=lambda x: (x[1], x[0]),
    rank=2,
    torch=composite,
    torch_native=composite,
    cupy=cupy_composite,
)
