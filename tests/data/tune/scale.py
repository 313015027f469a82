"""A kernel with launch parameters to tune: the default is slow on a GPU, and the fastest configuration is wrong."""

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks


def launch(x, y, THREADS, PER_THREAD):
    return Launch((blocks(x.size, THREADS * PER_THREAD),), (THREADS,), (x, y, np.int32(x.size)))


scale = Kernel(
    file=__file__,
    summary="y = 3 x",
    dtypes=("float32",),
    sizes={"small": (1 << 12,), "large": (1 << 25,)},
    edges=((1,), (127,), (4097,)),
    reference=lambda x: 3 * x,
    entries={"scale": launch},
    budgets={"float32": Budget(0.5, why="one product")},
    tunables={"THREADS": (32, 256), "PER_THREAD": (1, 3)},
)
