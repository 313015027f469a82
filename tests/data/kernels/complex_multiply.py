import numpy as np

from cudalab import Budget, Kernel, Launch

complex_multiply = Kernel(
    file=__file__,
    summary="product of complex numbers",
    dtypes=("complex64", "complex128"),
    sizes={"small": (10000,), "large": (1 << 25,)},
    edges=((1,), (31,), (257,)),
    reference=lambda a, b: a * b,
    entries={"complex_multiply": lambda a, b, y: Launch((-(-a.size // 256),), (256,), (a, b, y, np.int64(a.size)))},
    budgets={
        name: Budget(2, why="the products round by 1 ULP of the modulus together, their sum by 1")
        for name in ("complex64", "complex128")
    },
    pointwise=True,
    torch=lambda a, b: a * b,
)
