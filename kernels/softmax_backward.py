"""Gradient of the softmax of each row, from the softmax."""

import numpy as np

from cudalab import Budget, Kernel, Launch, counted, draw
from cudalab.kernels._rows import clustered, shared, threads_of

THREADS = 256  # of a block of softmax_backward_plain
HELD = 16  # elements of each of the two arrays that a thread keeps in registers


def reference(y, dy):
    return y * (dy - (y * dy).sum(axis=1, keepdims=True))


def softmax_and_gradient(shape, dtype, rng):
    """The softmax of a normal matrix, and standard normal gradients; those of one row are around 4."""
    dy = draw(shape, dtype, rng)
    dy[1:2] += 4
    x, y = draw(shape, np.dtype(np.float32), rng), np.empty(shape, dtype)
    parts = (x.size >> 18) + 1  # of a few rows, which stay in the cache: three times as fast as all rows at once
    for few, made in zip(np.array_split(x, parts), np.array_split(y, parts), strict=True):
        np.exp(3 * few, out=few)
        made[...] = few / few.sum(axis=1, keepdims=True)
    return {"y": y, "dy": dy}


def plain(y, dy, dx):
    rows, cols = y.shape
    return Launch((rows,), (THREADS,), (y, dy, dx, np.int64(cols)))


def vec(y, dy, dx):
    rows, cols = y.shape
    threads = threads_of(rows, cols, y.dtype.itemsize, HELD)
    return Launch(*shared(rows, threads), (y, dy, dx, np.int64(rows), counted(cols, np.int32)))


def cluster(y, dy, dx):
    rows, cols = y.shape
    return clustered(rows, cols, HELD, (y, dy, dx, np.int64(rows), counted(cols, np.int32)))


def composite(y, dy):
    return y * (dy - (y * dy).sum(1, keepdim=True))


def native(y, dy):
    import torch

    return torch.ops.aten._softmax_backward_data(dy, y, 1, y.dtype)


def cupy_composite(y, dy):
    return y * (dy - (y * dy).sum(axis=1)[:, None])  # cupy.fuse does not know keepdims


def roundings(y, dy):
    found = np.abs(dy)
    found += (y * found).sum(axis=1, keepdims=True)
    found *= y
    found *= 2**-21
    return found


def peers_roundings(y, dy):
    return 2 * roundings(y, dy)


EDGES = (  # the long ones at the end: every number of packs a thread can keep, in each dtype, and more than it keeps
    (1, 1), (5, 3), (3, 31), (6, 33), (9, 128), (2, 257), (3, 1023), (2, 1032), (2, 4099), (2, 8184), (1, 16400),
    (1, 33008), (0, 8),
)  # fmt: skip
CANCELS = "dy - s cancels where they are close: eight roundings of both, times y"
IN_OTHER_ORDER = "sixteen roundings of both: QuACK adds s in an order of its own; seen once in 33 million values"
IN_16_BITS = "some peers round y * dy or s, which is around 4, to the dtype"
ROUNDS = "each array operation rounds to the dtype: y * dy, s, which is around 4, the difference and the product"

softmax_backward = Kernel(
    file=__file__,
    summary="gradient of the softmax of each row, from the softmax",
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
    output="dx",
    entries={
        "softmax_backward_plain": plain,
        "softmax_backward_vec": vec,
        "softmax_backward_cluster": cluster,
    },
    called=lambda y, dy: "softmax_backward_vec",
    budgets={
        "float32": Budget(4, roundings, CANCELS),
        "float16": Budget(1, roundings, CANCELS),
        "bfloat16": Budget(1, roundings, CANCELS),
    },
    peers={
        "float32": Budget(4, peers_roundings, IN_OTHER_ORDER),
        "float16": Budget(2, 4e-3, IN_16_BITS),
        "bfloat16": Budget(2, 3.2e-2, IN_16_BITS),
    },
    composed={"float16": Budget(4, 4e-3, ROUNDS), "bfloat16": Budget(4, 3.2e-2, ROUNDS)},
    inputs=softmax_and_gradient,
    shapes={"y": "rows cols", "dy": "rows cols"},
    independent="rows",
    torch=composite,
    torch_native=native,
    cupy=cupy_composite,
    triton="triton/softmax_backward.py",
)
