"""A barrier of the whole grid: a cooperative launch."""

import numpy as np

from cudalab import Budget, Kernel, Launch, Work


def launch(y, x, partial):
    return Launch((partial.size,), (128,), (y, x, partial, np.int32(x.size)), cooperative=True)


grid_sync = Kernel(
    file=__file__,
    summary="x divided by its length",
    dtypes=("float32",),
    sizes={"small": (5000,), "large": (2**24,)},
    edges=((1,), (127,), (129,), (2049,)),
    shapes={"x": "n", "partial": "16"},
    reference=lambda x: x / np.sqrt((x * x).sum()),
    workspace={"partial": Work()},
    entries={"normalise": launch},
    budgets=Budget(16, why="a sum of n squares, rsqrtf, a product"),
    torch=lambda x: x * x.square().sum().rsqrt(),
)
