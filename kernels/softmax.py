"""Softmax of each row."""

import numpy as np

from cudalab.spec import Budget, Kernel, Launch, blocks

THREADS = 256  # of a block where the whole row passes by
BLOCK = 128  # threads of a block that rows share, each with a warp or less
HELD = 32  # elements that a thread of softmax_vec keeps in registers
SHORT = 512  # columns of a row that fewer than 32 threads take, so that no shuffle is for a few elements
BUSY = 2**16  # threads that keep the memory of a large GPU busy, half of what an H200 holds at 64 registers
MOST = 1024  # threads of a block, CUDA's limit


def reference(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def block_a_row(x, y):
    rows, cols = x.shape
    return Launch((rows,), (THREADS,), (x, y, np.int64(cols)))


def threads_of_row(rows, cols, itemsize):
    """A power of two: HELD elements a thread, fewer where a row is short or there are few rows, one pack at least."""
    pack = 16 // itemsize
    held = HELD // 2 if cols <= SHORT else HELD
    while held > pack and rows * blocks(cols, held) < BUSY:
        held //= 2
    return min(1 << (blocks(cols, held) - 1).bit_length(), MOST)


def vec(x, y):
    rows, cols = x.shape
    threads = threads_of_row(rows, cols, x.dtype.itemsize)
    shared = BLOCK // threads if threads <= 32 else 1  # rows of a block
    return Launch((blocks(rows, shared),), (threads, shared), (x, y, np.int64(rows), np.int32(cols)))


def composite(x):
    e = (x - x.amax(1, keepdim=True)).exp()
    return e / e.sum(1, keepdim=True)


def native(x):
    from torch.nn.functional import softmax

    return softmax(x, dim=1)


def cupy_composite(x):
    import cupy

    e = cupy.exp(x - x.max(axis=1)[:, None])  # cupy.fuse does not know keepdims
    return e / e.sum(axis=1)[:, None]


EXPONENT = "x - max goes to -10 and is rounded: 8 ULP of the exponential; then the exponential, the sum, the division"
INSIDE = "float32 inside, one rounding at the end"
ROUNDS = "x - max goes to -10: rounding it to the dtype is 8 ULP of the exponential; then exp, the sum and the division"

softmax = Kernel(
    file=__file__,
    summary="softmax of each row",
    dtypes=("float32", "float16", "bfloat16"),
    sizes={
        "small": (256, 512),
        "large": (8192, 4096),
        "xlarge": (32768, 4096),
        "short": (262144, 128),
        "long": (4096, 16384),
        "longest": (1024, 65536),
    },
    edges=((1, 1), (5, 3), (3, 31), (6, 33), (9, 128), (2, 257), (3, 1023), (2, 1032), (2, 4099), (1, 33001), (0, 8)),
    reference=reference,
    entries={"softmax_plain": block_a_row, "softmax_online": block_a_row, "softmax_vec": vec},
    budgets={
        "float32": Budget(16, why=EXPONENT),
        "float16": Budget(1, why=INSIDE),
        "bfloat16": Budget(1, why=INSIDE),
    },
    composed={"float16": Budget(16, why=ROUNDS), "bfloat16": Budget(16, why=ROUNDS)},
    rank=2,
    torch=composite,
    torch_native=native,
    cupy=cupy_composite,
)
