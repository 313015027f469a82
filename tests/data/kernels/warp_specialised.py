"""A warp that produces and warps that consume, with an array of cuda::barrier: two for each stage of a ring."""

import numpy as np

from cudalab import Budget, Kernel, Launch, Scalar

TILE = 128


def reference(x, scale):
    rows, cols = x.shape
    tiles = np.pad(x, ((0, 0), (0, -cols % TILE))).reshape(rows, -1, TILE)
    return tiles[:, :, ::-1].reshape(rows, -1)[:, :cols] * scale + x


warp_specialised = Kernel(
    file=__file__,
    summary="each tile plus its mirror image",
    dtypes=("float32",),
    sizes={"small": (3, 1000), "large": (132, 2**20)},
    edges=((1, 1), (2, 127), (2, 129), (1, 600)),
    shapes={"x": "rows cols"},
    reference=reference,
    scalars={"scale": Scalar(0.5)},
    entries={
        "warp_specialized": lambda x, y, scale: Launch((x.shape[0],), (128,), (x, y, np.int32(x.shape[1]), scale))
    },
    budgets=Budget(1, atol=1e-6, why="a sum that may cancel"),
)
