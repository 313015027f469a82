"""The default inputs of a kernel."""

from __future__ import annotations

import numpy as np

from cudalab.base.threads import normal
from cudalab.spec.launch import Shape

Arrays = dict[str, np.ndarray]


def draw(shape: Shape, dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """Standard normal values in `dtype`; integers of 30 bits, so that a sum of two cannot overflow int32."""
    if dtype.kind in "iu":
        high = min(np.iinfo(dtype).max // 2, 2**30)
        return rng.integers(0 if dtype.kind == "u" else -high, high, shape, dtype, endpoint=True)
    return normal(shape, dtype, rng)
