"""Transposition."""

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks


def launch(x, y):
    rows, cols = x.shape
    return Launch((blocks(cols, 32), blocks(rows, 32)), (32, 8), (x, y, np.int32(rows), np.int32(cols)))


transpose_pad = Kernel(
    file=__file__, summary="transposition", dtypes=("float32",), sizes={"small": (70, 5000)},
    shapes={"x": "rows cols", "y": "cols rows"},
    edges=((1, 1), (3, 31), (32, 32), (33, 65), (65, 47)), reference=lambda x: x.T.copy(),
    entries={"transpose_pad": launch},
    budgets={"float32": Budget(0, why="values are moved")},
)  # fmt: skip
