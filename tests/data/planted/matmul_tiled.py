"""Matrix product."""

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks, draw


def launch(a, b, y):
    (m, k), n = a.shape, b.shape[1]
    return Launch((blocks(n, 16), blocks(m, 16)), (16, 16), (a, b, y, np.int32(m), np.int32(n), np.int32(k)))


matmul_tiled = Kernel(
    file=__file__, summary="matrix product", dtypes=("float32",), sizes={"small": (65, 47, 5000)},
    shapes={"a": "m k", "b": "k n", "y": "m n"},
    edges=((1, 1, 1), (3, 31, 7), (16, 16, 16), (17, 33, 47), (65, 19, 21)),
    reference=lambda a, b: a @ b, entries={"matmul_tiled": launch},
    budgets={"float32": Budget(16, 1e-3, why="sums of up to 5,000 terms that may cancel")},
    inputs=lambda shape, dtype, rng: {
        "a": draw((shape[0], shape[2]), dtype, rng), "b": draw((shape[2], shape[1]), dtype, rng)
    },
)  # fmt: skip
