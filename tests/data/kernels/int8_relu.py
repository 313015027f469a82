import numpy as np

from cudalab import Budget, Kernel, Launch

int8_relu = Kernel(
    file=__file__,
    summary="max(x, 0) in int8",
    dtypes=("int8",),
    sizes={"small": (10000,), "large": (1 << 26,)},
    edges=((1,), (3,), (1025,)),
    reference=lambda x: np.maximum(x, 0),
    entries={"int8_relu": lambda x, y: Launch((-(-x.size // 1024),), (256,), (x, y, np.int64(x.size)))},
    budgets={"int8": Budget(0, why="exact")},
    pointwise=True,
)
