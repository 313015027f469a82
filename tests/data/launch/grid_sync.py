"""A cooperative launch: the grid waits for itself."""

import numpy as np

from cudalab import Budget, Kernel, Launch
from cudalab.spec.array import Work

BLOCKS = 8


def launch(x, y, partial):
    args = (y, partial, x, np.int32(x.size))
    return Launch(grid=(BLOCKS,), block=(128,), args=args, cooperative=True)


grid_sync = Kernel(
    file=__file__,
    summary="x divided by its sum",
    dtypes=("float32",),
    sizes={"small": (5000,)},
    edges=((1,), (1025,)),
    inputs=lambda shape, dtype, rng: {"x": rng.uniform(1, 2, shape).astype(dtype)},
    reference=lambda x: x / x.sum(),
    output="y",
    workspace={"partial": Work("float32")},
    shapes={"partial": lambda x: (BLOCKS,)},
    entries={"normalize": launch},
    budgets={"float32": Budget(64, why="a sum of thousands in another order")},
)
