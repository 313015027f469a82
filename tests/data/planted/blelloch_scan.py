"""Exclusive scan of each row."""

import numpy as np
from rows import block_a_row, budgets

from cudalab import Kernel

blelloch_scan = Kernel(
    file=__file__, summary="exclusive scan of each row", dtypes=("float32",), sizes={"small": (33, 300)},
    shapes={"x": "rows cols"},
    edges=((1, 1), (3, 31), (2, 512), (5, 257)),
    reference=lambda x: np.cumsum(np.pad(x, ((0, 0), (1, 0)))[:, :-1], axis=1),
    entries={"blelloch_scan": block_a_row(256)}, budgets=budgets(16, 1e-4),
)  # fmt: skip
