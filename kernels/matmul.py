"""Product of two matrices, a teaching version."""

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks, counted

PLAIN, TILE, SIDE = (32, 8), 32, 128  # threads of a plain block; sides of the other blocks' tiles


def reference(a, b):
    return a @ b


def positive_matrices(shape, dtype, rng):
    """For a size (m, k, n), in [0, 1): if terms cancel, no number of ULP of the sum bounds every order of adding."""
    m, k, n = shape
    return {"a": rng.random((m, k), dtype), "b": rng.random((k, n), dtype)}


def arguments(a, b, y):
    (m, k), n = a.shape, b.shape[1]
    return (a, b, y, *(counted(length, np.int32) for length in (m, n, k)))


def plain(a, b, y):
    rows, cols = y.shape
    return Launch((blocks(cols, PLAIN[0]), blocks(rows, PLAIN[1])), PLAIN, arguments(a, b, y))


def tile(a, b, y):
    rows, cols = y.shape
    return Launch((blocks(cols, TILE), blocks(rows, TILE)), (TILE, TILE), arguments(a, b, y))


def registers(a, b, y):
    rows, cols = y.shape
    return Launch((blocks(cols, SIDE), blocks(rows, SIDE)), (256,), arguments(a, b, y))


def composite(a, b):
    return a @ b


def native(a, b):
    import torch

    return torch.matmul(a, b)


ORDER = (
    "each element adds k terms one after the other, with k / 2 ULP at worst and about sqrt(k) in practice; k <= 4096"
)

matmul = Kernel(
    file=__file__,
    summary="y = a b, row-major matrices, sizes m x k x n",
    dtypes=("float32",),
    sizes={"small": (256, 256, 256), "large": (2048, 2048, 2048), "xlarge": (4096, 4096, 4096)},
    edges=((1, 1, 1), (1, 33, 1), (5, 1, 7), (17, 31, 33), (33, 129, 65), (129, 8, 127), (128, 16, 128), (130, 9, 257)),
    reference=reference,
    entries={"matmul_plain": plain, "matmul_tile": tile, "matmul_registers": registers},
    budgets={"float32": Budget(128, why=ORDER)},
    inputs=positive_matrices,
    shapes={"a": "m k", "b": "k n", "y": "m n"},
    flops=lambda a, b: 2 * a.shape[0] * a.shape[1] * b.shape[1],
    torch=composite,
    torch_native=native,
    cupy=composite,
    triton="triton/matmul.py",
)
