import numpy as np

from cudalab import Budget, Kernel, Launch

LARGEST = {"float8_e4m3fn": 448, "float8_e5m2": 57344}
HALF = "correctly rounded; what is too large becomes the largest number"

fp8_cast = Kernel(
    file=__file__,
    summary="float to an 8-bit float",
    dtypes=("float8_e4m3fn", "float8_e5m2"),
    sizes={"small": (10000,), "large": (1 << 26,)},
    edges=((1,), (31,), (257,)),
    reference=lambda x: 2 * x,
    entries={"fp8_cast": lambda x, y: Launch((-(-x.size // 256),), (256,), (x, y, np.int64(x.size)))},
    inputs=lambda shape, dtype, rng: {"x": rng.standard_normal(shape, np.float32) * np.float32(40)},
    budgets={name: Budget(0.5, why=HALF) for name in LARGEST},
    pointwise=True,
)
