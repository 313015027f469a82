"""Softmax of each row."""

import numpy as np

from cudalab import Budget, Kernel, Launch, counted, draw
from cudalab.kernels._rows import HELD, WARP, clustered, clusters, held, shared, threads_of

THREADS = 256  # of a block of the entries that read a row several times, and of a cluster's
LARGE = 1 << 20  # elements of an array that is drawn to be timed
LONGEST = 32 * 1024  # columns; a block would read more of float32 twice, and one of 16 bits would fill a multiprocessor
SHORT = 512  # columns up to which a thread has half of HELD: a warp or less for a row, if there are many rows


def reference(x):
    with np.errstate(invalid="ignore"):  # -inf - -inf
        e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def normal_and_masked_rows(shape, dtype, rng):
    """Standard normal, but for the first rows, where exp(x) overflows unless the largest is subtracted.

    And -inf, which is what attention masks with: a third of a row, a whole one, and all but its end. The last of these
    is left out of large arrays, which are for times: QuACK 0.6.5 gives NaN for it where a row is long.
    """
    x = draw(shape, dtype, rng)
    x[:1] += 100
    x[:1, 1::3] = -np.inf
    x[2:3, -1:] = 200
    x[3:4] = -np.inf
    if x.size < LARGE:
        x[4:5, :-5] = -np.inf
    return {"x": x}


def block_a_row(x, y):
    rows, cols = x.shape
    return Launch((rows,), (THREADS,), (x, y, np.int64(cols)))


def threads_of_row(rows, cols, itemsize):
    """A power of two: `held` elements a thread, fewer for short rows or few rows, at least one pack."""
    return threads_of(rows, cols, itemsize, HELD // 2 if cols <= SHORT else held(cols, itemsize))


def share(x, y, threads):
    """A launch with `threads` threads a row; rows with a warp or less share a block."""
    rows, cols = x.shape
    return Launch(*shared(rows, threads), (x, y, np.int64(rows), counted(cols, np.int32)))


def short(x, y):
    return share(x, y, min(threads_of_row(*x.shape, x.dtype.itemsize), WARP))


def vec(x, y):
    return share(x, y, threads_of_row(*x.shape, x.dtype.itemsize))


def cluster(x, y):
    rows, cols = x.shape
    args = (x, y, np.int64(rows), counted(cols, np.int32))
    return clustered(rows, cols, held(cols, x.dtype.itemsize), args, THREADS)


def called(x):
    """softmax_short where both entries have the same launch, softmax_cluster for the longest rows."""
    rows, cols = x.shape
    if cols > LONGEST and clusters():
        return "softmax_cluster"
    fits = cols <= SHORT and threads_of_row(rows, cols, x.dtype.itemsize) <= WARP
    return "softmax_short" if fits else "softmax_vec"


def backward(dy, y):
    from cudalab.kernels.softmax_backward import softmax_backward

    return softmax_backward(y, dy)


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


EDGES = (  # the long ones at the end: every number of packs a thread can keep, and more than it keeps
    (1, 1), (5, 3), (3, 31), (6, 33), (9, 128), (2, 257), (3, 1023), (2, 1032), (5, 4099),
    (2, 16376), (1, 24568), (1, 33008), (0, 8),
)  # fmt: skip
EXPONENT = "x - max goes to -10 and is rounded: 8 ULP of the exponential; then the exponential, the sum, the division"
INSIDE = "float32 inside, one rounding at the end"
AT_100 = "QuACK takes exp2(x log2 e - max log2 e): max is 104, and the rounded product is off by 128 ULP of the result"
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
    edges=EDGES,
    reference=reference,
    entries={
        "softmax_plain": block_a_row,
        "softmax_online": block_a_row,
        "softmax_short": short,
        "softmax_vec": vec,
        "softmax_cluster": cluster,
    },
    called=called,
    budgets={
        "float32": Budget(16, why=EXPONENT),
        "float16": Budget(1, why=INSIDE),
        "bfloat16": Budget(1, why=INSIDE),
    },
    peers={"float32": Budget(128, why=AT_100)},
    composed={"float16": Budget(16, why=ROUNDS), "bfloat16": Budget(16, why=ROUNDS)},
    inputs=normal_and_masked_rows,
    shapes={"x": "rows cols"},
    independent="rows",
    backward=backward,
    torch=composite,
    torch_native=native,
    cupy=cupy_composite,
    triton="triton/softmax.py",
)
