"""Argmax: a float32 and an int64 output."""

import numpy as np

from cudalab import Budget, Kernel, Launch, Out


def with_ties(shape, dtype, rng):
    return {"x": np.round(rng.standard_normal(shape) * 2).astype(dtype) - 5}


def launch(x, values, indices):
    rows, cols = x.shape
    return Launch(grid=(rows,), block=(128,), args=(x, values, indices, np.int32(cols)))


argmax = Kernel(
    file=__file__,
    summary="largest element of each row, and where it is",
    dtypes=("float32",),
    sizes={"small": (64, 1000), "large": (8192, 4096)},
    edges=((1, 1), (3, 31), (2, 129), (5, 1023)),
    shapes={"x": "rows cols", "values": "rows", "indices": "rows"},
    inputs=with_ties,
    reference=lambda x: (x.max(axis=1), x.argmax(axis=1)),
    outputs={"values": Out(), "indices": Out(dtype="int64")},
    entries={"argmax_rows": launch},
    budgets=Budget(0, why="an element of x"),
    torch_native=lambda x: tuple(x.max(dim=1)),
)
