"""Histogram: bytes in, counts out, in a buffer that is zero before the launch."""

import numpy as np

from cudalab import Budget, Kernel, Launch, Out, blocks


def launch(bins, data):
    grid = min(blocks(data.size, 192), 240)
    return Launch(grid=(grid,), block=(192,), args=(bins, data, np.uint64(data.size)))


histogram = Kernel(
    file=__file__,
    summary="how often each byte occurs",
    dtypes=("uint8",),
    sizes={"small": (20_000,), "large": (2**26,)},
    edges=((1,), (191,), (193,), (1000,)),
    shapes={"data": "n", "bins": "256"},
    reference=lambda data: np.bincount(data, minlength=256),
    outputs={"bins": Out(dtype="int32", fill=0)},
    entries={"histogram256": launch},
    budgets=Budget(0, why="counts"),
    torch=lambda data: data.bincount(minlength=256).int(),
)
