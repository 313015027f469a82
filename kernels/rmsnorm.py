"""Root mean square norm of each row."""

import numpy as np

from cudalab import Budget, Kernel, Launch, Scalar, counted, draw
from cudalab.kernels._rows import clustered, clusters, shared, threads_of

THREADS = 256  # of a block of rmsnorm_plain
HELD = 32  # elements that a thread of rmsnorm_vec keeps in registers
LONGEST = 1024 * HELD  # columns of which a block of rmsnorm_vec reads nothing twice


def reference(x, weight, eps):
    return x / np.sqrt((x**2).mean(axis=1, keepdims=True) + eps) * weight


def matrix_and_row(shape, dtype, rng):
    """Standard normal, except one row whose mean square is small beside eps."""
    x = draw(shape, dtype, rng)
    x[1:2] *= 2**-12
    return {"x": x, "weight": draw(shape[1:], dtype, rng)}


def plain(x, weight, y, eps):
    rows, cols = x.shape
    return Launch((rows,), (THREADS,), (x, weight, y, np.int64(cols), eps))


def vec(x, weight, y, eps):
    rows, cols = x.shape
    threads = threads_of(rows, cols, x.dtype.itemsize, HELD)
    return Launch(*shared(rows, threads), (x, weight, y, np.int64(rows), counted(cols, np.int32), eps))


def cluster(x, weight, y, eps):
    rows, cols = x.shape
    return clustered(rows, cols, HELD, (x, weight, y, np.int64(rows), counted(cols, np.int32), eps))


def called(x, weight):
    """rmsnorm_cluster for long rows of float32. In float16 it takes longer than rmsnorm_vec."""
    longer = x.shape[1] > LONGEST and x.dtype.itemsize == 4
    return "rmsnorm_cluster" if longer and clusters() else "rmsnorm_vec"


def backward(dy, x, weight, eps):
    from cudalab.kernels.rmsnorm_backward import rmsnorm_backward

    return rmsnorm_backward(dy, x, weight, eps=eps)


def composite(x, weight, eps: float):
    wide = x.float()
    return (wide * (wide.pow(2).mean(1, keepdim=True) + eps).rsqrt()).to(x.dtype) * weight


def native(x, weight, eps):
    from torch.nn.functional import rms_norm

    return rms_norm(x, weight.shape, weight, eps)


def cupy_composite(x, weight, eps):
    import cupy

    wide = x.astype(cupy.float32)
    return (wide / cupy.sqrt((wide * wide).mean(axis=1) + eps)[:, None]).astype(x.dtype) * weight


EDGES = (  # the long ones at the end: every number of packs a thread can keep, in each dtype, and more than it keeps
    (1, 1), (5, 3), (3, 31), (6, 33), (9, 128), (2, 257), (3, 1023), (2, 1032), (2, 4099),
    (2, 8184), (2, 16376), (1, 24568), (1, 33008), (0, 8),
)  # fmt: skip
SUMS = "units of 2^-24: rsqrtf 4, two products 2, eps and the mean of squares 1; a ULP is one or two"
INSIDE = "float32 inside, one rounding at the end"
TWICE = "x / rms is rounded to the dtype before the weight multiplies it"
ROUNDS = "each array operation rounds to the dtype: the squares, the root, the quotient and the product"

rmsnorm = Kernel(
    file=__file__,
    summary="root mean square norm of each row, with a weight for each column",
    dtypes=("float32", "float16", "bfloat16"),
    sizes={
        "small": (128, 768),
        "large": (8192, 4096),
        "xlarge": (32768, 4096),
        "short": (262144, 128),
        "long": (4096, 16384),
        "longest": (1024, 65536),
    },
    edges=EDGES,
    reference=reference,
    scalars={"eps": Scalar(1e-6)},
    entries={"rmsnorm_plain": plain, "rmsnorm_vec": vec, "rmsnorm_cluster": cluster},
    called=called,
    budgets={
        "float32": Budget(8, why=SUMS),
        "float16": Budget(1, why=INSIDE),
        "bfloat16": Budget(1, why=INSIDE),
    },
    peers={"float16": Budget(2, why=TWICE), "bfloat16": Budget(2, why=TWICE)},
    composed={"float16": Budget(4, why=ROUNDS), "bfloat16": Budget(4, why=ROUNDS)},
    inputs=matrix_and_row,
    shapes={"x": "rows cols", "weight": "cols"},
    independent="rows",
    backward=backward,
    torch=composite,
    torch_native=native,
    cupy=cupy_composite,
    triton="triton/rmsnorm.py",
)
