"""Launches whose loops can be counted by hand."""

import numpy as np

from cudalab import Budget, Kernel, Launch


def divided(x, y):
    return Launch((1,), (32,), (x, y, np.int32(x.size), np.uint32(37), np.int64(17 * x.size)))


def plain(grid, block):
    return lambda x, y: Launch((grid,), (block,), (x, y, np.int64(x.size)))


ways = Kernel(
    file=__file__,
    summary="loops and branches for the tests of cudalab inspect",
    dtypes=("float32",),
    sizes={"small": (1000,), "large": (100_000,)},
    edges=(),
    reference=lambda x: x,
    entries={
        "divided": divided, "strided": plain(8, 128), "on_data": plain(1, 64), "tree": plain(1, 256),
        "costly": plain(300, 50), "spilled": plain(1, 1024),
        "trips": plain(8, 128), "quotients": plain(8, 128),
    },
    budgets={"float32": Budget(0)},
)  # fmt: skip
