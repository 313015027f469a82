"""Transpose of a matrix: to be measured on a GPU before it moves to the lab's kernels."""

import numpy as np

from cudalab.spec import Budget, Kernel, Launch, blocks

TILE, WIDE_TILE = 32, 64  # as in the .cu
THREADS = 256


def reference(x):
    return np.ascontiguousarray(x.T)


def tile(x, y):
    rows, cols = x.shape
    tiles = blocks(rows, TILE) * blocks(cols, TILE)
    return Launch((tiles,), (TILE, THREADS // TILE), (x, y, np.int64(rows), np.int64(cols)))


def vec(x, y):
    rows, cols = x.shape
    tiles = blocks(rows, WIDE_TILE) * blocks(cols, WIDE_TILE)
    return Launch((tiles,), (THREADS,), (x, y, np.int64(rows), np.int64(cols)))


def composite(x):
    return x.t().contiguous()


def cupy_composite(x):
    import cupy

    return cupy.ascontiguousarray(x.T)


EXACT = Budget(0, why="elements are moved, not computed")

transpose = Kernel(
    file=__file__,
    summary="y[c][r] = x[r][c], row-major matrix",
    dtypes=("float32", "float16", "bfloat16"),
    sizes={"small": (512, 768), "large": (4096, 8192), "xlarge": (16384, 16384)},
    edges=((1, 1), (1, 33), (31, 1), (32, 32), (33, 65), (64, 128), (72, 200), (68, 132), (129, 127), (0, 7), (7, 0)),
    reference=reference,
    entries={"transpose_plain": tile, "transpose_tile": tile, "transpose_vec": vec},
    budgets={"float32": EXACT, "float16": EXACT, "bfloat16": EXACT},
    output_shape=lambda x: (x[1], x[0]),
    rank=2,
    torch=composite,
    torch_native=composite,
    cupy=cupy_composite,
)
