"""A sum of two matrices, and the root mean square norm of each row of it: the residual connection of a transformer."""

import numpy as np

from cudalab import Budget, Kernel, Launch, Out, Scalar, counted, draw
from cudalab.kernels._rows import clustered, shared, threads_of

THREADS = 256  # of a block of fused_add_rmsnorm_plain
HELD = 16  # elements that a thread of fused_add_rmsnorm_vec keeps in registers


def norm(sum, weight, eps):
    return sum / np.sqrt((sum**2).mean(axis=1, keepdims=True) + eps) * weight


def matrices_and_row(shape, dtype, rng):
    """Standard normal, except one row whose mean square is small beside eps."""
    x, residual = draw(shape, dtype, rng), draw(shape, dtype, rng)
    x[1:2] *= 2**-12
    residual[1:2] *= 2**-12
    return {"x": x, "residual": residual, "weight": draw(shape[1:], dtype, rng)}


def plain(x, residual, weight, y, sum, eps):
    rows, cols = x.shape
    return Launch((rows,), (THREADS,), (x, residual, weight, y, sum, np.int64(cols), eps))


def vec(x, residual, weight, y, sum, eps):
    rows, cols = x.shape
    threads = threads_of(rows, cols, x.dtype.itemsize, HELD)
    args = x, residual, weight, y, sum, np.int64(rows), counted(cols, np.int32), eps
    return Launch(*shared(rows, threads), args)


def cluster(x, residual, weight, y, sum, eps):
    rows, cols = x.shape
    return clustered(rows, cols, HELD, (x, residual, weight, y, sum, np.int64(rows), counted(cols, np.int32), eps))


def composite(x, residual, weight, eps: float):
    sum = x + residual
    wide = sum.float()
    return sum, (wide * (wide.pow(2).mean(1, keepdim=True) + eps).rsqrt()).to(x.dtype) * weight


def native(x, residual, weight, eps):
    from torch.nn.functional import rms_norm

    sum = x + residual
    return sum, rms_norm(sum, weight.shape, weight, eps)


EDGES = (  # the long ones at the end: every number of packs a thread can keep, in each dtype, and more than it keeps
    (1, 1), (5, 3), (3, 31), (6, 33), (9, 128), (2, 257), (3, 1023), (2, 1032), (2, 4099), (2, 8184), (1, 16400),
    (1, 33008), (0, 8),
)  # fmt: skip
SUMS = "units of 2^-24: rsqrtf 4, two products 2, the sum 1, eps and the mean of squares 1; a ULP is one or two"
INSIDE = "float32 inside, one rounding at the end"
UNROUNDED = "x / rms is rounded to the dtype before the weight multiplies it; the norm may be that of the unrounded sum"

fused_add_rmsnorm = Kernel(
    file=__file__,
    summary="sum of two matrices, and the root mean square norm of each row of it",
    dtypes=("float32", "float16", "bfloat16"),
    sizes={"small": (128, 768), "large": (8192, 4096), "xlarge": (32768, 4096), "long": (4096, 16384)},
    edges=EDGES,
    outputs={
        "sum": Out(lambda x, residual: x + residual, budgets=Budget(0.5, why="one sum")),
        "y": Out(norm),
    },
    scalars={"eps": Scalar(1e-6)},
    entries={
        "fused_add_rmsnorm_plain": plain,
        "fused_add_rmsnorm_vec": vec,
        "fused_add_rmsnorm_cluster": cluster,
    },
    called=lambda x, residual, weight: "fused_add_rmsnorm_vec",
    budgets={
        "float32": Budget(8, why=SUMS),
        "float16": Budget(1, why=INSIDE),
        "bfloat16": Budget(1, why=INSIDE),
    },
    peers={"float16": Budget(4, 1e-2, UNROUNDED), "bfloat16": Budget(4, 8e-2, UNROUNDED)},
    composed={"float16": Budget(4, 1e-2, UNROUNDED), "bfloat16": Budget(4, 8e-2, UNROUNDED)},
    inputs=matrices_and_row,
    shapes={"x": "rows cols", "residual": "rows cols", "weight": "cols"},
    independent="rows",
    torch=composite,
    torch_native=native,
    triton="triton/fused_add_rmsnorm.py",
)
