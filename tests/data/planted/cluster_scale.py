"""Rows divided by their sum of magnitudes."""

import numpy as np
from rows import planted, sums

from cudalab import Launch

cluster_scale = planted(
    __file__, __doc__, lambda x, y: Launch((2 * x.shape[0],), (64,), (x, y, np.int32(x.shape[1])), cluster=(2,)),
    lambda x: x / np.abs(x).sum(axis=1, keepdims=True), sums(64),
)  # fmt: skip
