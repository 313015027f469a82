"""Layer normalisation of each row."""

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks, counted, draw
from cudalab.kernels._rows import BUSY, HELD, MOST, WARP, clustered, held, power_of_two, shared, threads_of

EPS = 1e-5  # PyTorch's default
THREADS = 256  # of a block of layernorm_plain
EIGHT = 512  # threads of a block of layernorm_eight, at most
FOUR = 2048  # columns above which layernorm_four takes rows of 16 bits, up to twice as many


def reference(x, gamma, beta):
    mean = x.mean(axis=1, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(axis=1, keepdims=True) + EPS) * gamma + beta


def matrix_and_rows(shape, dtype, rng):
    """Standard normal, except one row whose variance is small beside eps."""
    x = draw(shape, dtype, rng)
    x[1:2] *= 2**-10
    return {"x": x, "gamma": draw(shape[1:], dtype, rng), "beta": draw(shape[1:], dtype, rng)}


def plain(x, gamma, beta, y):
    rows, cols = x.shape
    return Launch((rows,), (THREADS,), (x, gamma, beta, y, np.int64(cols), np.float32(EPS)))


def eight(x, gamma, beta, y):
    """32 bytes a thread, 8 registers; a block processes longer rows in turns. 64 bytes where rows of 16 bits fit so."""
    rows, cols = x.shape
    size = x.dtype.itemsize
    four = size == 2 and FOUR < cols <= 2 * FOUR and cols % 8 == 0
    threads = min(max(power_of_two(blocks(cols, (64 if four else 32) // size)), WARP), EIGHT)
    args = x, gamma, beta, y, counted(cols, np.int32), np.float32(EPS)
    return Launch((rows,), (threads,), args, entry="layernorm_four" if four else "layernorm_eight")


def vec(x, gamma, beta, y):
    """8 bytes a thread and a row a block where that leaves an H200 idle and a row has more than a warp."""
    rows, cols = x.shape
    width = 8 // x.dtype.itemsize
    few = blocks(cols, width * WARP) * WARP
    if WARP < few <= MOST and rows * few < BUSY and cols % width == 0:
        args = x, gamma, beta, y, counted(cols, np.int32), np.float32(EPS)
        return Launch((rows,), (few,), args, entry="layernorm_few")
    threads = threads_of(rows, cols, x.dtype.itemsize, held(cols, x.dtype.itemsize))
    args = x, gamma, beta, y, np.int64(rows), counted(cols, np.int32), np.float32(EPS)
    return Launch(*shared(rows, threads), args, entry="layernorm_vec")


def cluster(x, gamma, beta, y):
    rows, cols = x.shape
    args = x, gamma, beta, y, np.int64(rows), counted(cols, np.int32), np.float32(EPS)
    return clustered(rows, cols, held(cols, x.dtype.itemsize), args)


def called(x, gamma, beta):
    """layernorm_eight for rows of up to 4,096 in whole packs, and so many that layernorm_vec would give a thread more.

    Rows that are not in whole packs it would read three times.
    """
    rows, cols = x.shape
    size = x.dtype.itemsize
    fits = cols % (16 // size) == 0 and 16 * WARP <= cols <= 8 * EIGHT
    return "layernorm_eight" if fits and 32 // size * threads_of(rows, cols, size, HELD) < cols else "layernorm_vec"


def backward(dy, x, gamma):
    from cudalab.kernels.layernorm_backward import layernorm_backward

    return layernorm_backward(dy, x, gamma)


def composite(x, gamma, beta):
    d = x - x.mean(1, keepdim=True)
    return d * ((d * d).mean(1, keepdim=True) + 1e-5).rsqrt() * gamma + beta


def native(x, gamma, beta):
    from torch.nn.functional import layer_norm

    return layer_norm(x, gamma.shape, gamma, beta, 1e-5)


def cupy_composite(x, gamma, beta):
    import cupy

    d = x - x.mean(axis=1)[:, None]  # cupy.fuse does not know keepdims
    return d / cupy.sqrt((d * d).mean(axis=1) + EPS)[:, None] * gamma + beta


EDGES = (  # the long ones at the end: every number of packs a thread can keep, in each dtype, and more than it keeps
    (1, 2), (5, 3), (3, 31), (6, 33), (9, 64), (9, 128), (2, 257), (3, 1023), (2, 1032), (2, 2056),
    (2, 4099), (2, 4104), (2, 8184), (2, 16376), (1, 24568), (1, 33008), (0, 8),
)  # fmt: skip
CANCELS = "x - mean, and the sum with beta, cancel where they are close: a few roundings of numbers up to 16"
ROUNDS = "each array operation rounds to the dtype: x - mean, the scale and both products, of numbers up to 16"

layernorm = Kernel(
    file=__file__,
    summary="layer normalisation of each row, with gamma and beta, eps = 1e-5",
    dtypes=("float32", "float16", "bfloat16"),
    sizes={"small": (128, 768), "large": (8192, 4096), "xlarge": (32768, 4096), "long": (8192, 16384)},
    edges=EDGES,
    reference=reference,
    entries={
        "layernorm_plain": plain,
        "layernorm_eight": eight,
        "layernorm_vec": vec,
        "layernorm_cluster": cluster,
    },
    called=called,
    budgets={
        "float32": Budget(4, 4e-6, CANCELS),
        "float16": Budget(1, 4e-6, CANCELS),
        "bfloat16": Budget(1, 4e-6, CANCELS),
    },
    composed={"float16": Budget(4, 3.2e-2, ROUNDS), "bfloat16": Budget(4, 2.5e-1, ROUNDS)},
    inputs=matrix_and_rows,
    shapes={"x": "rows cols", "gamma": "cols", "beta": "cols"},
    independent="rows",
    backward=backward,
    torch=composite,
    torch_native=native,
    cupy=cupy_composite,
    triton="triton/layernorm.py",
)
