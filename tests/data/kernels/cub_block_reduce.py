"""CUB's block reduction."""

import numpy as np

from cudalab import Budget, Kernel, Launch

cub_block_reduce = Kernel(
    file=__file__,
    summary="mean of each row",
    dtypes=("float32",),
    sizes={"small": (64, 1000), "large": (8192, 4096)},
    edges=((1, 1), (3, 127), (2, 129)),
    shapes={"x": "rows cols", "y": "rows"},
    reference=lambda x: x.mean(axis=1),
    entries={"row_means": lambda x, y: Launch((x.shape[0],), (128,), (x, y, np.int32(x.shape[1])))},
    budgets=Budget(4, atol=1e-6, why="a sum whose terms cancel"),
    torch=lambda x: x.mean(1),
)
