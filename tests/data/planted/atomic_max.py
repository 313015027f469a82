"""The largest value of each row, by atomics."""

import numpy as np

from cudalab import Budget, Kernel, Launch, Out, blocks


def launch(x, y):
    rows, cols = x.shape
    return Launch((blocks(cols, 256), rows), (256,), (x, y, np.int32(cols)))


atomic_max = Kernel(
    file=__file__, summary="the largest value of each row", dtypes=("float32",), sizes={"small": (20, 900)},
    shapes={"x": "rows cols", "y": "rows"}, edges=((1, 1), (3, 31), (2, 257), (4, 1023)),
    reference=lambda x: x.max(axis=1), outputs={"y": Out(fill=-np.inf)}, entries={"atomic_max": launch},
    budgets={"float32": Budget(0, why="a value is moved")}, nans="ignored",
)  # fmt: skip
