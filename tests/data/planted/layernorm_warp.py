"""Layer normalisation of each row."""

import numpy as np
from rows import EDGES, SIZES, budgets

from cudalab import Kernel, Launch, blocks, draw


def reference(x, gamma, beta):
    d = x - x.mean(axis=1, keepdims=True)
    return d / np.sqrt((d * d).mean(axis=1, keepdims=True) + 1e-5) * gamma + beta


def launch(x, gamma, beta, y):
    rows, cols = x.shape
    return Launch((blocks(rows, 4),), (32, 4), (x, gamma, beta, y, np.int64(rows), np.int32(cols)))


layernorm_warp = Kernel(
    file=__file__, summary="layer normalisation of each row", dtypes=("float32",), sizes=SIZES, edges=EDGES,
    shapes={"x": "rows cols", "gamma": "cols", "beta": "cols"},
    reference=reference, entries={"layernorm_warp": launch}, budgets=budgets(32, 1e-5),
    inputs=lambda shape, dtype, rng: {
        "x": draw(shape, dtype, rng), "gamma": draw(shape[1:], dtype, rng), "beta": draw(shape[1:], dtype, rng)
    },
)  # fmt: skip
