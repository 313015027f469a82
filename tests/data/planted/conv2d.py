"""Convolution of each image with 3 by 3 weights."""

import numpy as np
from rows import planted

from cudalab import Budget, Launch, blocks


def reference(x, w):
    p = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    return sum(w[a, b] * p[:, a : a + x.shape[1], b : b + x.shape[2]] for a in range(3) for b in range(3))


def launch(x, w, y):
    images, rows, cols = x.shape
    return Launch((blocks(cols, 32), blocks(rows, 8), images), (32, 8), (x, w, y, np.int32(rows), np.int32(cols)))


conv2d = planted(
    __file__, __doc__, launch, reference, Budget(8, 1e-5, why="a sum of nine terms that may cancel"),
    small=(2, 300, 400), edges=((1, 1, 1), (2, 3, 31), (3, 8, 32), (2, 17, 33)),
    shapes={"x": "images rows cols", "w": "3 3"},
)  # fmt: skip
