"""The first row that has the largest value of each column."""

import numpy as np
from rows import planted

from cudalab import Launch, Out, Work, blocks


def launch(x, y, top, lock):
    rows, cols = x.shape
    return Launch((blocks(x.size, 64),), (64,), (x, y, top, lock, np.int32(rows), np.int32(cols)))


column_argmax = planted(
    __file__, __doc__, launch, lambda x: x.argmax(axis=0), small=(90, 7), edges=((1, 1), (33, 31), (200, 3)),
    shapes={"x": "rows cols", "y": "cols", "top": "cols", "lock": "cols"}, outputs={"y": Out(dtype="int64", fill=0)},
    workspace={"top": Work(fill=-np.inf), "lock": Work(dtype="int32", fill=0)},
)  # fmt: skip
