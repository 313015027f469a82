"""2.5 x + b."""

import numpy as np
from rows import planted

from cudalab import Budget, Launch, blocks


def launch(x, b, y):
    return Launch((min(blocks(x.size, 128), 1024),), (128,), (x, b, y, np.int64(x.size)))


saxpy_stride = planted(
    __file__, __doc__, launch, lambda x, b: 2.5 * x + b, Budget(2, 1e-6, why="a sum of two terms that may cancel"),
    small=(150000,), edges=((1,), (31,), (129,), (2049,)), shapes={"x": "n", "b": "n"},
)  # fmt: skip
