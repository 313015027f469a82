"""Transpose of a matrix."""

import numpy as np

from cudalab.spec import Budget, Kernel, Launch, blocks

TILE, STEP, SIDE = 32, 8, 64  # as in the .cu


def reference(x):
    return np.ascontiguousarray(x.T)


def tile(x, y):
    rows, cols = x.shape
    tiles = blocks(rows, TILE) * blocks(cols, TILE)
    return Launch((tiles,), (TILE, STEP), (x, y, np.int64(rows), np.int64(cols)))


def vec(x, y, THREADS):
    rows, cols = x.shape
    tiles = blocks(rows, SIDE * 4 // x.dtype.itemsize) * blocks(cols, SIDE)  # of 64 words of 4 bytes down
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
    sizes={"small": (256, 384), "large": (4096, 8192), "xlarge": (16384, 8192)},
    edges=((1, 1), (1, 33), (31, 1), (32, 32), (33, 65), (64, 128), (72, 200), (68, 132), (129, 127), (0, 7), (7, 0)),
    reference=reference,
    entries={"transpose_plain": tile, "transpose_tile": tile, "transpose_vec": vec},
    budgets={"float32": EXACT, "float16": EXACT, "bfloat16": EXACT},
    output_shape=lambda x: (x[1], x[0]),
    rank=2,
    tunables={"THREADS": (512, 256)},
    torch=composite,
    torch_native=composite,
    cupy=cupy_composite,
)
