"""Softmax of each row, 0 where all values are masked."""

import numpy as np
from rows import planted, sums, warp_a_row


def reference(x):
    top = x.max(axis=1, keepdims=True)
    e = np.exp(x - np.where(np.isinf(top), 0, top))
    total = e.sum(axis=1, keepdims=True)
    return np.divide(e, total, out=np.zeros_like(e), where=total > 0)


safe_softmax = planted(
    __file__, __doc__, warp_a_row(4), reference, sums(64),
)  # fmt: skip
