"""A cast to fp8: an output of 8 bits, which saturates."""

import numpy as np

from cudalab import Budget, In, Kernel, Launch, Out, blocks

fp8_scaled = Kernel(
    file=__file__,
    summary="x times a scale, in fp8 (e4m3)",
    dtypes=("float32",),
    sizes={"small": (10_000,), "large": (2**26,)},
    edges=((1,), (3,), (5,), (1027,)),
    shapes={"x": "n", "scale": "1"},
    inputs={"x": In(low=-400, high=400), "scale": In(low=0.5, high=2)},
    reference=lambda x, scale: np.clip(x * scale, -448, 448),
    outputs={"out": Out(dtype="float8_e4m3fn", budgets=Budget(0.51, why="a product in float32, then one rounding"))},
    entries={
        "cast_e4m3": lambda x, scale, out: Launch((blocks(x.size, 1024),), (256,), (out, x, scale, np.int32(x.size)))
    },
    budgets=Budget(0.51, why="one rounding"),
    aligned=16,
)
