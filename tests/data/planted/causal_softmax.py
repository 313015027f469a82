"""Softmax of lower triangles."""

import numpy as np
from rows import planted

from cudalab import Budget, Launch


def reference(x):
    masked = np.where(np.tril(np.ones(x.shape[1:], bool)), x, -np.inf)
    e = np.exp(masked - masked.max(axis=2, keepdims=True))
    return e / e.sum(axis=2, keepdims=True)


def launch(x, y):
    count, n, _ = x.shape
    return Launch((count * n,), (128,), (x, y, np.int32(n)), shared=4 * n)


causal_softmax = planted(
    __file__, __doc__, launch, reference, Budget(32, why="an exponential and a sum"), small=(2, 140, 140),
    edges=((1, 1, 1), (2, 3, 3), (1, 33, 33), (2, 47, 47)), shapes={"x": "count n m"},
)  # fmt: skip
