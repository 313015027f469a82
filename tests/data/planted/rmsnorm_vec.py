"""RMS norm of each row, in packs."""

import numpy as np
from rows import planted, sums

from cudalab import Launch

rmsnorm_vec = planted(
    __file__, __doc__, lambda x, weight, y: Launch((x.shape[0],), (128,), (x, weight, y, np.int32(x.shape[1]))),
    lambda x, weight: x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6) * weight, sums(16), small=(33, 320),
    edges=((1, 4), (3, 32), (5, 260), (4, 1032)), aligned=16, shapes={"x": "rows cols", "weight": "cols"},
)  # fmt: skip
