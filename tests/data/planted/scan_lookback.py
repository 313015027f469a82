"""Inclusive scan."""

import numpy as np
from rows import planted

from cudalab import Budget, Launch, blocks

scan_lookback = planted(
    __file__, __doc__, lambda x, y: Launch((blocks(x.size, 128),), (128,), (x, y, np.int64(x.size))),
    lambda x: np.cumsum(x), Budget(16, 1e-3, why="sums of up to 5,000 terms that may cancel"), small=(5000,),
    edges=((1,), (127,), (129,), (1025,)), shapes={"x": "n"},
)  # fmt: skip
