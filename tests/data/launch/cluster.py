"""Clusters: by the launch and by the source, shared memory of the neighbour."""

import numpy as np

from cudalab import Budget, Kernel, Launch

BLOCK = 64


def by_source(x, y):
    return Launch(grid=(x.size // BLOCK,), block=(BLOCK,), args=(y, x))


def by_launch(x, y):
    return Launch(grid=(x.size // BLOCK,), block=(BLOCK,), args=(y, x), cluster=(2,), shared=4 * BLOCK)


cluster = Kernel(
    file=__file__,
    summary="each 128 elements reversed",
    dtypes=("float32",),
    sizes={"small": (1024,)},
    edges=((128,),),
    reference=lambda x: x.reshape(-1, 2 * BLOCK)[:, ::-1].reshape(-1),
    output="y",
    entries={"reverse": by_source, "reverse_dynamic": by_launch},
    budgets={"float32": Budget(0, why="a copy")},
)
