"""A histogram of each row of bytes."""

import numpy as np

from cudalab import Budget, Kernel, Launch


def inputs(shape, dtype, rng):
    x = rng.integers(0, 256, shape, np.uint8)
    x[:1] = 200  # a count that 8 bits cannot hold
    return {"x": x}


histogram_rows = Kernel(
    file=__file__, summary="a histogram of each row", dtypes=("int32",), sizes={"small": (9, 3000)},
    shapes={"x": "rows cols", "y": "rows 256"},
    edges=((1, 1), (3, 31), (2, 257), (5, 1023)), inputs=inputs,
    reference=lambda x: np.stack([np.bincount(row, minlength=256) for row in x]).astype(np.int32),
    entries={"histogram_rows": lambda x, y: Launch((x.shape[0],), (128,), (x, y, np.int32(x.shape[1])))},
    budgets={"int32": Budget(0, why="counts")},
)  # fmt: skip
