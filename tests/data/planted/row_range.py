"""The largest and the least value of each row."""

import numpy as np
from rows import EDGES, SIZES, block_a_row

from cudalab import Budget, Kernel

row_range = Kernel(
    file=__file__, summary="the largest and the least value of each row", dtypes=("float32",), sizes=SIZES, edges=EDGES,
    shapes={"x": "rows cols", "y": "rows 2"},
    reference=lambda x: np.stack([x.max(axis=1), x.min(axis=1)], axis=1), entries={"row_range": block_a_row(200)},
    budgets={"float32": Budget(0, why="a value is moved")}, nans="ignored",
)  # fmt: skip
