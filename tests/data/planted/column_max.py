"""The largest value of each column."""

import numpy as np
from rows import planted

from cudalab import Launch, Out, blocks


def launch(x, y):
    rows, cols = x.shape
    return Launch((blocks(rows, 32), blocks(cols, 64)), (64,), (x, y, np.int32(rows), np.int32(cols)))


column_max = planted(
    __file__, __doc__, launch, lambda x: x.max(axis=0), small=(300, 70), edges=((1, 1), (33, 31), (257, 65)),
    shapes={"x": "rows cols", "y": "cols"}, outputs={"y": Out(fill=-np.inf)}, nans="ignored",
)  # fmt: skip
