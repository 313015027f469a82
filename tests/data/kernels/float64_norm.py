import numpy as np

from cudalab import Budget, Kernel, Launch

float64_norm = Kernel(
    file=__file__,
    summary="rows of mean square one, in float64",
    dtypes=("float64",),
    sizes={"small": (17, 300), "large": (4096, 4096)},
    edges=((1, 1), (2, 31), (3, 129)),
    reference=lambda x: x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-12),
    entries={"float64_norm": lambda x, y: Launch((x.shape[0],), (64,), (x, y, np.int32(x.shape[1])))},
    budgets={"float64": Budget(16, why="the sum of a row rounds at each addition; half of that error is left")},
    shapes={"x": "rows cols"},
)
