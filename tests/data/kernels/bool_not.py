import numpy as np

from cudalab import Budget, Kernel, Launch

bool_not = Kernel(
    file=__file__,
    summary="the opposite of a mask",
    dtypes=("bool",),
    sizes={"small": (10000,)},
    edges=((1,), (31,), (257,)),
    reference=lambda x: ~x,
    entries={"bool_not": lambda x, y: Launch((-(-x.size // 256),), (256,), (x, y, np.int32(x.size)))},
    budgets={"bool": Budget(0, why="exact")},
    pointwise=True,
)
