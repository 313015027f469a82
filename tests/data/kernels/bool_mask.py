import numpy as np

from cudalab import Budget, Kernel, Launch

bool_mask = Kernel(
    file=__file__,
    summary="a mask of what is positive",
    dtypes=("bool",),
    sizes={"small": (10000,), "large": (1 << 26,)},
    edges=((1,), (31,), (257,)),
    reference=lambda x: x > 0,
    entries={"bool_mask": lambda x, y: Launch((-(-x.size // 256),), (256,), (x, y, np.int64(x.size)))},
    inputs=lambda shape, dtype, rng: {"x": rng.standard_normal(shape, np.float32)},
    budgets={"bool": Budget(0, why="exact")},
    pointwise=True,
)
