"""The largest value of each column."""

import numpy as np

from cudalab import Budget, Kernel, Launch, Out, blocks


def launch(x, y):
    rows, cols = x.shape
    return Launch((blocks(rows, 32), blocks(cols, 64)), (64,), (x, y, np.int32(rows), np.int32(cols)))


column_max = Kernel(
    file=__file__, summary="the largest value of each column", dtypes=("float32",), sizes={"small": (300, 70)},
    shapes={"x": "rows cols", "y": "cols"}, edges=((1, 1), (33, 31), (257, 65)),
    reference=lambda x: x.max(axis=0), outputs={"y": Out(fill=-np.inf)}, entries={"column_max": launch},
    budgets={"float32": Budget(0, why="a value is moved")}, nans="ignored",
)  # fmt: skip
