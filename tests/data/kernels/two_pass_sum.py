"""Sum in two launches that are one entry, over a workspace."""

import numpy as np

from cudalab import Budget, Kernel, Launch, Work

THREADS, MOST = 256, 64


def launches(x, total, partial):
    return (
        Launch(
            (partial.size,), (THREADS,), (x, partial, np.uint32(x.size)), shared=4 * THREADS, entry="reduce_partial"
        ),
        Launch((1,), (THREADS,), (partial, total, np.uint32(partial.size)), shared=4 * THREADS, entry="reduce_final"),
    )


two_pass_sum = Kernel(
    file=__file__,
    summary="sum of all elements",
    dtypes=("float32",),
    sizes={"small": (50_000,), "large": (2**26,)},
    edges=((1,), (255,), (257,), (16385,)),
    shapes={"x": "n", "total": "1", "partial": lambda x: (min(-(-x[0] // THREADS), MOST),)},
    reference=lambda x: x.sum(keepdims=True),
    output="total",
    workspace={"partial": Work()},
    entries={"sum": launches},
    budgets=Budget(4, atol=1e-3, why="a sum of n terms that cancel"),
    torch=lambda x: x.sum(0, keepdim=True),
)
