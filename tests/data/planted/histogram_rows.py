"""A histogram of each row of bytes."""

import numpy as np
from rows import planted

from cudalab import Launch


def inputs(shape, dtype, rng):
    x = rng.integers(0, 256, shape, np.uint8)
    x[:1] = 200  # a count that 8 bits cannot hold
    return {"x": x}


histogram_rows = planted(
    __file__, __doc__, lambda x, y: Launch((x.shape[0],), (128,), (x, y, np.int32(x.shape[1]))),
    lambda x: np.stack([np.bincount(row, minlength=256) for row in x]).astype(np.int32), small=(9, 3000),
    edges=((1, 1), (3, 31), (2, 257), (5, 1023)), dtypes=("int32",), shapes={"x": "rows cols", "y": "rows 256"},
    inputs=inputs,
)  # fmt: skip
