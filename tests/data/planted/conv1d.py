"""Convolution of each row with 7 weights."""

import numpy as np
from rows import planted

from cudalab import Budget, Launch, blocks


def reference(x, w):
    p = np.pad(x, ((0, 0), (3, 3)))
    return sum(w[k] * p[:, k : k + x.shape[1]] for k in range(7))


def launch(x, w, y):
    rows, cols = x.shape
    return Launch((blocks(cols, 128), rows), (128,), (x, w, y, np.int32(cols)))


conv1d = planted(
    __file__, __doc__, launch, reference, Budget(8, 1e-5, why="a sum of seven terms that may cancel"), small=(7, 70000),
    edges=((1, 1), (3, 31), (2, 128), (3, 259)), shapes={"x": "rows cols", "w": "7"},
)  # fmt: skip
