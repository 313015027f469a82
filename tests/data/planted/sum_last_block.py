"""The sum of an array."""

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks

sum_last_block = Kernel(
    file=__file__, summary="the sum of an array", dtypes=("float32",), sizes={"small": (20000,)},
    shapes={"x": "n", "y": "1"},
    edges=((1,), (127,), (129,), (1025,), (5000,)), reference=lambda x: x.sum().reshape(1),
    entries={
        "sum_last_block": lambda x, y: Launch(
            (max(1, min(blocks(x.size, 256), 200)),), (128,), (x, y, np.int64(x.size))
        )
    },
    budgets={"float32": Budget(16, 2e-4, why="the sum may cancel")},
)  # fmt: skip
