"""The index of the largest value of each row."""

import numpy as np
from rows import EDGES, SIZES

from cudalab import Budget, Kernel, Launch

argmax_row = Kernel(
    file=__file__, summary="the index of the largest value of each row", dtypes=("int32",), sizes=SIZES, edges=EDGES,
    shapes={"x": "rows cols", "y": "rows"},
    reference=lambda x: x.argmax(axis=1).astype(np.int32),
    entries={"argmax_row": lambda x, y: Launch((x.shape[0],), (128,), (x, y, np.int32(x.shape[1])))},
    budgets={"int32": Budget(0, why="an index")},
    inputs=lambda shape, dtype, rng: {"x": rng.standard_normal(shape, np.float32)},
)  # fmt: skip
