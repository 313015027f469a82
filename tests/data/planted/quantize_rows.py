"""Each row as bytes."""

import numpy as np
from rows import EDGES, SIZES

from cudalab import Budget, Kernel, Launch


def reference(x):
    top = np.abs(x).max(axis=1, keepdims=True)
    scale = np.divide(127, top, out=np.zeros_like(top), where=top > 0)
    return (128 + np.rint(x * scale)).astype(np.uint8)


quantize_rows = Kernel(
    file=__file__, summary="each row as bytes", dtypes=("uint8",), sizes=SIZES, edges=EDGES,
    shapes={"x": "rows cols"},
    reference=reference,
    entries={"quantize_rows": lambda x, y: Launch((x.shape[0],), (128,), (x, y, np.int32(x.shape[1])))},
    inputs=lambda shape, dtype, rng: {"x": rng.standard_normal(shape, np.float32)},
    budgets={"uint8": Budget(1, why="halves may round the other way")},
)  # fmt: skip
