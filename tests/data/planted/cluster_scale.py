"""Rows divided by their sum of magnitudes."""

import numpy as np
from rows import EDGES, SIZES, budgets

from cudalab import Kernel, Launch

cluster_scale = Kernel(
    file=__file__, summary="rows divided by their sum of magnitudes", dtypes=("float32",), sizes=SIZES, edges=EDGES,
    reference=lambda x: x / np.abs(x).sum(axis=1, keepdims=True), shapes={"x": "rows cols"},
    entries={
        "cluster_scale": lambda x, y: Launch((2 * x.shape[0],), (64,), (x, y, np.int32(x.shape[1])), cluster=(2,)),
    },
    budgets=budgets(64),
)  # fmt: skip
