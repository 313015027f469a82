"""The sum of an array."""

import numpy as np
from rows import planted

from cudalab import Budget, Launch, blocks

sum_last_block = planted(
    __file__, __doc__, lambda x, y: Launch((max(1, min(blocks(x.size, 256), 200)),), (128,), (x, y, np.int64(x.size)) ),
    lambda x: x.sum().reshape(1), Budget(16, 2e-4, why="the sum may cancel"), small=(20000,),
    edges=((1,), (127,), (129,), (1025,), (5000,)), shapes={"x": "n", "y": "1"},
)  # fmt: skip
