"""Bias and GELU (erf form) of a matrix in one pass."""

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks, counted_sides, deep_grid, draw
from cudalab.kernels._h200 import MULTIPROCESSORS

WIDTH, HEIGHT = 64, 6  # threads of a block of the plain entry
LANES = 32  # threads of a warp
COUNTED = 2**32 - 2**17  # packs that 32 bits can count, with room for the threads of the last blocks
ROOM = 5 * MULTIPROCESSORS  # blocks of the plain entry that fit on an H200 at once
BUSY = 2**17  # threads that keep the memory of a large GPU busy


def reference(x, bias):
    from scipy.special import ndtr  # Phi, accurate in both tails

    z = x + bias
    return z * ndtr(z)


def matrix_and_row(shape, dtype, rng):
    """Standard normal, except one row that reaches values where Phi(z) underflows."""
    x = draw(shape, dtype, rng)
    x[:1] *= 8
    return {"x": x, "bias": draw(shape[1:], dtype, rng)}


def plain(x, bias, y):
    rows, cols = x.shape
    grid = deep_grid(blocks(cols, WIDTH), blocks(rows, HEIGHT))
    return Launch(grid, (WIDTH, HEIGHT), (x, bias, y, *counted_sides(x.shape)))


def vec(x, bias, y, VEC_THREADS, VEC_ELEMENTS):
    """A block covers as much of a row as there is, and several rows below; small matrices get one row a thread."""
    rows, cols = x.shape
    packs = max(blocks(cols, 16 // x.dtype.itemsize), 1)
    lanes = min(LANES * blocks(packs, LANES), VEC_THREADS)
    height = VEC_THREADS // lanes
    each = max(VEC_ELEMENTS * x.dtype.itemsize // 16, 1)
    if rows * packs < each * BUSY:
        each = 1
    grid = deep_grid(blocks(packs, lanes), blocks(rows, height * each))
    tall = rows if rows * packs <= COUNTED else 0
    counts = np.int64(rows), np.int64(cols), np.uint32(tall), np.uint32(each)
    return Launch(grid, (lanes, height), (x, bias, y, *counts))


def called(x, bias):
    rows, cols = x.shape
    return "bias_gelu_plain" if blocks(cols, WIDTH) * blocks(rows, HEIGHT) <= ROOM else "bias_gelu_vec"


def composite(x, bias):
    z = x + bias
    return z * 0.5 * (1.0 + (z * 0.7071067811865476).erf())


def native(x, bias):
    from torch.nn.functional import gelu

    return gelu(x + bias)


def cupy_composite(x, bias):
    from cupyx.scipy.special import ndtr  # Phi, one array operation

    z = x + bias
    return (z * ndtr(z.astype("float32", copy=False))).astype(x.dtype, copy=False)


FITTED = (
    "as gelu; the rounding error of x + bias is corrected in the tail, which multiplies it by z^2, but not near 0: "
    "small sums are up to 4.4 ULP off"
)
INSIDE = "float32 inside, one rounding at the end"
CANCELS = "of the peers: they round x + bias, and 1 + erf(z / sqrt(2)) cancels in the tail"
SUM = "of F.gelu(x + bias), two kernels: the sum between them is rounded to the dtype, half a ULP of z, at most 8"
ROUNDS = "each array operation rounds to the dtype, so 1 + erf(...) carries |z| / 2 roundings of 1 into the tail"

EDGES = (  # in the largest a thread has several rows, and fewer at the end of the matrix
    (1, 1), (5, 3), (7, 8), (3, 1031), (1, 129), (129, 1), (19, 128), (16, 256), (33, 272), (64, 131), (67, 131),
    (37, 16), (2067, 1016), (0, 8), (8, 0),
)  # fmt: skip

bias_gelu = Kernel(
    file=__file__,
    summary="y = z * Phi(z), z = x + bias (one for each column), row-major matrix",
    dtypes=("float32", "float16", "bfloat16"),
    sizes={"small": (128, 768), "large": (8192, 4096), "xlarge": (32768, 4096)},
    edges=EDGES,
    reference=reference,
    entries={"bias_gelu_plain": plain, "bias_gelu_vec": vec},
    called=called,
    budgets={
        "float32": Budget(5, why=FITTED),
        "float16": Budget(1, why=INSIDE),
        "bfloat16": Budget(1, why=INSIDE),
    },
    peers={
        "float32": Budget(4, 2e-6, CANCELS),
        "float16": Budget(2, 4e-3, SUM),
        "bfloat16": Budget(2, 3.2e-2, SUM),
    },
    composed={"float16": Budget(4, 8e-3, ROUNDS), "bfloat16": Budget(4, 6.4e-2, ROUNDS)},
    inputs=matrix_and_row,
    shapes={"x": "rows cols", "bias": "cols"},
    independent="rows",
    tunables={"VEC_THREADS": (128, 64, 256), "VEC_ELEMENTS": (16, 8, 32)},
    torch=composite,
    torch_native=native,
    cupy=cupy_composite,
    triton="triton/bias_gelu.py",
)
