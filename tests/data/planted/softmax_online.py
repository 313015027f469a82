"""Softmax of each row."""

import numpy as np
from rows import EDGES, SIZES, block_a_row, budgets

from cudalab import Kernel


def reference(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


softmax_online = Kernel(
    file=__file__, summary="softmax of each row", dtypes=("float32",), sizes=SIZES, edges=EDGES,
    shapes={"x": "rows cols"},
    reference=reference, entries={"softmax_online": block_a_row(256)}, budgets=budgets(64),
)  # fmt: skip
