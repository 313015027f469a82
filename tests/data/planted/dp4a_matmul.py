"""Product of int8 matrices."""

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks


def inputs(shape, dtype, rng):
    m, n, k = shape
    a, b = (rng.integers(-128, 128, (rows, k)).astype(np.int8) for rows in (m, n))
    return {"a": a, "b": b}


def launch(a, b, y):
    (m, k), n = a.shape, b.shape[0]
    return Launch((blocks(n, 16), blocks(m, 8)), (16, 8), (a, b, y, np.int32(m), np.int32(n), np.int32(k)))


dp4a_matmul = Kernel(
    file=__file__, summary="product of int8 matrices", dtypes=("int32",), sizes={"small": (33, 47, 64)},
    shapes={"a": "m k", "b": "n k", "y": "m n"},
    edges=((1, 1, 4), (3, 31, 8), (16, 16, 20), (17, 9, 100)), inputs=inputs, aligned=4,
    reference=lambda a, b: a.astype(np.int32) @ b.astype(np.int32).T, entries={"dp4a_matmul": launch},
    budgets={"int32": Budget(0, why="integers")},
)  # fmt: skip
