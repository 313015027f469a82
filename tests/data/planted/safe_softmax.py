"""Softmax of each row, 0 where all values are masked."""

import numpy as np
from rows import EDGES, SIZES, budgets, warp_a_row

from cudalab import Kernel


def reference(x):
    top = x.max(axis=1, keepdims=True)
    e = np.exp(x - np.where(np.isinf(top), 0, top))
    total = e.sum(axis=1, keepdims=True)
    return np.divide(e, total, out=np.zeros_like(e), where=total > 0)


safe_softmax = Kernel(
    file=__file__, summary="softmax, 0 for masked rows", dtypes=("float32",), sizes=SIZES, edges=EDGES,
    shapes={"x": "rows cols"}, reference=reference, entries={"safe_softmax": warp_a_row(4)}, budgets=budgets(64),
)  # fmt: skip
