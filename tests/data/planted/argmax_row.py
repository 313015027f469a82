"""The index of the largest value of each row."""

import numpy as np
from rows import planted

from cudalab import Launch

argmax_row = planted(
    __file__, __doc__, lambda x, y: Launch((x.shape[0],), (128,), (x, y, np.int32(x.shape[1]))),
    lambda x: x.argmax(axis=1).astype(np.int32), dtypes=("int32",), shapes={"x": "rows cols", "y": "rows"},
    inputs=lambda shape, dtype, rng: {"x": rng.standard_normal(shape, np.float32)},
)  # fmt: skip
