import numpy as np
from scipy.special import softmax

from cudalab import Budget, Kernel, Launch, blocks

WARPS = 4  # rows of a block in row_softmax_warp
THREADS = 256  # of a block in row_softmax_block


def warp_a_row(x, y):
    rows, cols = x.shape
    return Launch((blocks(rows, WARPS),), (32 * WARPS,), (x, y, np.int32(rows), np.int32(cols)))


def block_a_row(x, y):
    rows, cols = x.shape
    return Launch((rows,), (THREADS,), (x, y, np.int32(cols)))


def eager(x):
    top = x.amax(1, keepdim=True)
    e = (x - top).exp()
    return e / e.sum(1, keepdim=True)


def native(x):
    return x.softmax(1)


def cupy_form(x):
    import cupy

    e = cupy.exp(x - x.max(axis=1)[:, None])  # cupy.fuse does not know keepdims
    return e / e.sum(axis=1)[:, None]


EXPONENT = (
    "x - top goes to -10: rounding it and its multiple of log2(e) are 16 ULP of the exp; then the sum, the division"
)
INSIDE = "float32 inside, one rounding at the end"
ROUNDS = "x - top goes to -10: rounding it to the dtype is 8 ULP of the exp; then the exp, the sum and the division"

row_softmax = Kernel(
    file=__file__,
    summary="softmax of each row",
    dtypes=("float32", "float16", "bfloat16"),
    sizes={"small": (64, 1000), "large": (4096, 4097)},
    edges=((1, 1), (3, 31), (5, 33), (2, 257), (7, 1023)),
    reference=lambda x: softmax(x, axis=1),
    entries={"row_softmax_warp": warp_a_row, "row_softmax_block": block_a_row},
    budgets={
        "float32": Budget(32, why=EXPONENT),
        "float16": Budget(1, why=INSIDE),
        "bfloat16": Budget(1, why=INSIDE),
    },
    composed={"float16": Budget(16, why=ROUNDS), "bfloat16": Budget(16, why=ROUNDS)},
    shapes={"x": "rows cols"},
    torch=eager,
    torch_native=native,
    cupy=cupy_form,
)
