"""Bias and GELU (erf form) of a matrix in one pass: to be measured on a GPU before it moves to the lab's kernels."""

import numpy as np

from cudalab.spec import Budget, Kernel, Launch, blocks, draw

LANES, PLAIN_HEIGHT, HEIGHT, ROWS = 32, 8, 4, 4  # threads of a block in x and y; rows a thread of bias_gelu_vec
MAX_GRID_Y = 65535  # CUDA's limit, the same on every architecture


def reference(x, bias):
    from scipy.special import ndtr  # Phi, accurate in both tails

    z = x + bias
    return z * ndtr(z)


def matrix_and_row(shape, dtype, rng):
    return {"x": draw(shape, dtype, rng), "bias": draw(shape[1:], dtype, rng)}


def plain(x, bias, y):
    rows, cols = x.shape
    grid = (blocks(cols, LANES), min(blocks(rows, PLAIN_HEIGHT), MAX_GRID_Y))
    return Launch(grid, (LANES, PLAIN_HEIGHT), (x, bias, y, np.int64(rows), np.int64(cols)))


def vec(x, bias, y):
    rows, cols = x.shape
    grid = (blocks(cols, LANES * 16 // x.dtype.itemsize), min(blocks(rows, HEIGHT * ROWS), MAX_GRID_Y))
    return Launch(grid, (LANES, HEIGHT), (x, bias, y, np.int64(rows), np.int64(cols)))


def composite(x, bias):
    z = x + bias
    return z * 0.5 * (1.0 + (z * 0.7071067811865476).erf())


def native(x, bias):
    from torch.nn.functional import gelu

    return gelu(x + bias)


def cupy_composite(x, bias):
    from cupyx.scipy.special import erf

    z = x + bias
    inner = (z * 0.7071067811865476).astype("float32", copy=False)  # CuPy's erf makes float64 of float16
    return (z * 0.5 * (1.0 + erf(inner))).astype(x.dtype, copy=False)


CANCELS = "of the peers: they round x + bias, and 1 + erf(z / sqrt(2)) cancels in the tail. Ours keeps 4 and 1 ULP"
SUM = "of F.gelu(x + bias), two kernels: the sum is rounded to the dtype in between, half a ULP of z, at most 8"
ROUNDS = "each array operation rounds to the dtype, so 1 + erf(...) carries |z| / 2 roundings of 1 into the tail"

bias_gelu = Kernel(
    file=__file__,
    summary="y = z * Phi(z), z = x + bias (one for each column), row-major matrix",
    dtypes=("float32", "float16", "bfloat16"),
    sizes={"small": (512, 768), "large": (8192, 4096), "xlarge": (65536, 4096)},
    edges=((1, 1), (5, 3), (1, 129), (129, 1), (17, 128), (16, 256), (33, 260), (67, 131), (0, 8), (8, 0)),
    reference=reference,
    entries={"bias_gelu_plain": plain, "bias_gelu_vec": vec},
    budgets={
        "float32": Budget(4, 2e-6, CANCELS),
        "float16": Budget(2, 4e-3, SUM),
        "bfloat16": Budget(2, 3.2e-2, SUM),
    },
    composed={"float16": Budget(4, 8e-3, ROUNDS), "bfloat16": Budget(4, 6.4e-2, ROUNDS)},
    inputs=matrix_and_row,
    rank=2,
    torch=composite,
    torch_native=native,
    cupy=cupy_composite,
)
