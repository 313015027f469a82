"""A matrix times a vector for each batch."""

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks, draw


def inputs(shape, dtype, rng):
    batch, _, n = shape
    return {"a": draw(shape, dtype, rng), "x": draw((batch, n), dtype, rng)}


def launch(a, x, y):
    batch, m, n = a.shape
    return Launch((blocks(m, 4), batch), (32, 4), (a, x, y, np.int32(m), np.int32(n)))


batched_gemv = Kernel(
    file=__file__, summary="batched matrix times vector", dtypes=("float32",), sizes={"small": (3, 300, 400)},
    shapes={"a": "batch m n", "x": "batch n", "y": "batch m"},
    edges=((1, 1, 1), (2, 5, 31), (3, 9, 33), (5, 4, 257)), reference=lambda a, x: np.einsum("bmn,bn->bm", a, x),
    entries={"batched_gemv": launch}, inputs=inputs,
    budgets={"float32": Budget(16, 1e-4, why="sums of up to 400 terms that may cancel")},
)  # fmt: skip
