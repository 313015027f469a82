"""The sum of the squares of an array."""

import numpy as np
from rows import planted

from cudalab import Budget, Launch, Work, blocks

sum_of_squares = planted(
    __file__, __doc__,
    lambda x, y, part, arrived: Launch((blocks(x.size, 128),), (128,), (x, y, part, arrived, np.int64(x.size)) ),
    lambda x: (x * x).sum().reshape(1), Budget(32, why="a sum of terms of one sign in float32"),
    sizes={"small": (20000,), "large": (1 << 22,)}, edges=((1,), (127,), (129,), (1025,), (5000,)),
    shapes={"x": "n", "y": "1", "part": "(n+127)//128", "arrived": "1"},
    workspace={"part": Work(), "arrived": Work(dtype="uint32", fill=0)},
)  # fmt: skip
