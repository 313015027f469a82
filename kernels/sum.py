"""Sum of all elements."""

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks
from cudalab.base.threads import normal
from cudalab.kernels._h200 import MULTIPROCESSORS

THREADS = 256
VEC_THREADS = 512
PLAIN_THREADS = 1024  # of the one block
ROUND = (2**23 - 2**13 + 3,)  # float32: 15.5 packs a thread, in one or two turns of 8, a cut turn, and a tail


def reference(x):
    return x.sum(keepdims=True)


def positive(shape, dtype, rng):
    """Values of one sign: if terms cancel, no number of ULP of the sum bounds every order of adding."""
    return {"x": np.abs(normal(shape, dtype, rng))}


def plain(x, y):
    return Launch((1,), (PLAIN_THREADS,), (x, y, np.int64(x.size)))


def by_element(x, y):
    return Launch((min(max(blocks(x.size, THREADS), 1), 8 * MULTIPROCESSORS),), (THREADS,), (x, y, np.int64(x.size)))


def vec(x, y):
    packs = blocks(x.size, 16 // x.dtype.itemsize)
    grid = min(max(blocks(packs, VEC_THREADS), 1), 2 * MULTIPROCESSORS)
    return Launch((grid,), (VEC_THREADS,), (x, y, np.int64(x.size)))


def composite(x):
    return x.sum(0, keepdim=True)


def cupy_composite(x):
    return x.sum(axis=0)[None]  # cupy.fuse does not know keepdims; there is no bfloat16 in CuPy


ORDER = "each thread adds up to about 1,000 terms in a row, whose roundings are of either sign"

sum = Kernel(
    file=__file__,
    summary="y[0] = sum of all elements",
    dtypes=("float32", "bfloat16"),
    sizes={"small": (2**16,), "large": (2**25,), "xlarge": (2**28,)},
    edges=((1,), (31,), (33,), (255,), (257,), (1023,), (2**13 + 1,), (2**15 + 9,), ROUND, (0,)),
    reference=reference,
    entries={"sum_plain": plain, "sum_blocks": by_element, "sum_vec": vec},
    budgets={
        "float32": Budget(16, why=ORDER),
        "bfloat16": Budget(0.51, why="float32 inside, one rounding at the end"),
    },
    inputs=positive,
    shapes={"x": "n", "y": "1"},
    torch=composite,
    torch_native=composite,
    cupy=cupy_composite,
    triton="triton/sum.py",
)
