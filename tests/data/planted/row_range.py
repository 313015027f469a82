"""The largest and the least value of each row."""

import numpy as np
from rows import block_a_row, planted

row_range = planted(
    __file__, __doc__, block_a_row(200), lambda x: np.stack([x.max(axis=1), x.min(axis=1)], axis=1),
    shapes={"x": "rows cols", "y": "rows 2"}, nans="ignored",
)  # fmt: skip
