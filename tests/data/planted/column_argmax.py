"""The first row that has the largest value of each column."""

import numpy as np

from cudalab import Budget, Kernel, Launch, Out, Work, blocks


def launch(x, y, top, lock):
    rows, cols = x.shape
    return Launch((blocks(x.size, 64),), (64,), (x, y, top, lock, np.int32(rows), np.int32(cols)))


column_argmax = Kernel(
    file=__file__, summary="the first row with the largest value", dtypes=("float32",), sizes={"small": (90, 7)},
    shapes={"x": "rows cols", "y": "cols", "top": "cols", "lock": "cols"}, edges=((1, 1), (33, 31), (200, 3)),
    reference=lambda x: x.argmax(axis=0), outputs={"y": Out(dtype="int64", fill=0)},
    workspace={"top": Work(fill=-np.inf), "lock": Work(dtype="int32", fill=0)}, entries={"column_argmax": launch},
    budgets={"float32": Budget(0, why="an index")},
)  # fmt: skip
