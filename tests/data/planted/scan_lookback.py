"""Inclusive scan."""

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks

scan_lookback = Kernel(
    file=__file__, summary="inclusive scan", dtypes=("float32",), sizes={"small": (5000,)},
    shapes={"x": "n"},
    edges=((1,), (127,), (129,), (1025,)), reference=lambda x: np.cumsum(x),
    entries={"scan_lookback": lambda x, y: Launch((blocks(x.size, 128),), (128,), (x, y, np.int64(x.size)))},
    budgets={"float32": Budget(16, 1e-3, why="sums of up to 5,000 terms that may cancel")},
)  # fmt: skip
