"""Matrix product."""

import numpy as np
from rows import planted

from cudalab import Budget, Launch, blocks, draw


def inputs(shape, dtype, rng):
    m, n, k = shape
    return {"a": draw((m, k), dtype, rng), "b": draw((k, n), dtype, rng)}


def launch(a, b, y):
    (m, k), n = a.shape, b.shape[1]
    return Launch((blocks(n, 16), blocks(m, 16)), (16, 16), (a, b, y, np.int32(m), np.int32(n), np.int32(k)))


matmul_tiled = planted(
    __file__, __doc__, launch, lambda a, b: a @ b, Budget(16, 1e-3, why="sums of up to 5,000 terms that may cancel"),
    small=(65, 47, 5000), edges=((1, 1, 1), (3, 31, 7), (16, 16, 16), (17, 33, 47), (65, 19, 21)),
    shapes={"a": "m k", "b": "k n", "y": "m n"},
    inputs=inputs,
)  # fmt: skip
