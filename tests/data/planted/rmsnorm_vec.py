"""RMS norm of each row, in packs."""

import numpy as np
from rows import budgets

from cudalab import Kernel, Launch, draw

rmsnorm_vec = Kernel(
    file=__file__, summary="RMS norm of each row", dtypes=("float32",), sizes={"small": (33, 320)}, aligned=16,
    shapes={"x": "rows cols", "weight": "cols"},
    edges=((1, 4), (3, 32), (5, 260), (4, 1032)),
    reference=lambda x, weight: x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6) * weight,
    entries={"rmsnorm_vec": lambda x, weight, y: Launch((x.shape[0],), (128,), (x, weight, y, np.int32(x.shape[1])))},
    budgets=budgets(16),
    inputs=lambda shape, dtype, rng: {"x": draw(shape, dtype, rng), "weight": draw(shape[1:], dtype, rng)},
)  # fmt: skip
