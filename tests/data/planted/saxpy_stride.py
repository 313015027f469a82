"""2.5 x + b."""

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks


def launch(x, b, y):
    return Launch((min(blocks(x.size, 128), 1024),), (128,), (x, b, y, np.int64(x.size)))


saxpy_stride = Kernel(
    file=__file__, summary="2.5 x + b", dtypes=("float32",), sizes={"small": (150000,)},
    shapes={"x": "n", "b": "n"},
    edges=((1,), (31,), (129,), (2049,)), reference=lambda x, b: 2.5 * x + b, entries={"saxpy_stride": launch},
    budgets={"float32": Budget(2, 1e-6, why="a sum of two terms that may cancel")},
)  # fmt: skip
