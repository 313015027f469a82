"""Product of int8 matrices."""

import numpy as np
from rows import planted

from cudalab import Launch, blocks


def inputs(shape, dtype, rng):
    m, n, k = shape
    a, b = (rng.integers(-128, 128, (rows, k)).astype(np.int8) for rows in (m, n))
    return {"a": a, "b": b}


def launch(a, b, y):
    (m, k), n = a.shape, b.shape[0]
    return Launch((blocks(n, 16), blocks(m, 8)), (16, 8), (a, b, y, np.int32(m), np.int32(n), np.int32(k)))


dp4a_matmul = planted(
    __file__, __doc__, launch, lambda a, b: a.astype(np.int32) @ b.astype(np.int32).T, small=(33, 47, 64),
    edges=((1, 1, 4), (3, 31, 8), (16, 16, 20), (17, 9, 100)), dtypes=("int32",),
    shapes={"a": "m k", "b": "n k", "y": "m n"}, inputs=inputs, aligned=4,
)  # fmt: skip
