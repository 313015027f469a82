"""Five-point stencil."""

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks


def reference(x):
    p = np.pad(x, 1)
    return 4 * x - p[:-2, 1:-1] - p[2:, 1:-1] - p[1:-1, :-2] - p[1:-1, 2:]


def launch(x, y):
    rows, cols = x.shape
    return Launch((blocks(cols, 16), blocks(rows, 16)), (16, 16), (x, y, np.int32(rows), np.int32(cols)))


stencil2d = Kernel(
    file=__file__, summary="five-point stencil", dtypes=("float32",), sizes={"small": (40, 3000)},
    shapes={"x": "rows cols"},
    edges=((1, 1), (3, 31), (16, 16), (17, 33), (65, 47)), reference=reference, entries={"stencil2d": launch},
    budgets={"float32": Budget(4, 2e-6, why="a sum of five terms that may cancel")},
)  # fmt: skip
