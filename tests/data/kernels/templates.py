"""Templates in a namespace: an entry is named as C++ names the instance."""

import numpy as np

from cudalab import Budget, Kernel, Launch


def launch(threads):
    return lambda x, y: Launch((x.shape[0],), (threads,), (x, y, np.int32(x.shape[1])))


templates = Kernel(
    file=__file__,
    summary="sum of each row",
    dtypes=("float32", "float16", "bfloat16"),
    sizes={"small": (32, 1000), "large": (8192, 4096)},
    edges=((1, 1), (3, 63), (2, 257)),
    shapes={"x": "rows cols", "y": "rows"},
    reference=lambda x: x.sum(axis=1),
    entries={f"rows::row_sum<{threads}, scalar_t>": launch(threads) for threads in (64, 256)},
    budgets={
        "float32": Budget(4, atol=1e-4, why="a sum whose terms cancel"),
        "float16": Budget(1, atol=1e-4, why="float32 inside, one rounding at the end"),
        "bfloat16": Budget(1, atol=1e-4, why="float32 inside, one rounding at the end"),
    },
    torch=lambda x: x.sum(1),
)
