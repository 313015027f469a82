import numpy as np

from cudalab import Budget, Kernel, Launch

fp8_relu = Kernel(
    file=__file__,
    summary="max(x, 0) of 8-bit floats",
    dtypes=("float8_e4m3fn", "float8_e5m2"),
    sizes={"small": (10000,), "large": (1 << 26,)},
    edges=((1,), (31,), (257,)),
    reference=lambda x: np.maximum(x, 0),
    entries={"fp8_relu": lambda x, y: Launch((-(-x.size // 256),), (256,), (x, y, np.int64(x.size)))},
    budgets={name: Budget(0.5, why="exact") for name in ("float8_e4m3fn", "float8_e5m2")},
    pointwise=True,
)
