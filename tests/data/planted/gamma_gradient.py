"""The gradient of a norm's gamma."""

import numpy as np
from rows import planted

from cudalab import Budget, Launch, Out, Work, blocks


def launch(dy, xhat, y, locks):
    rows, cols = dy.shape
    return Launch((blocks(cols, 32), 4), (32, 8), (dy, xhat, y, locks, np.int32(rows), np.int32(cols)))


gamma_gradient = planted(
    __file__, __doc__, launch, None, Budget(64, 2e-3, why="sums of a column in float32"),
    shapes={"dy": "rows cols", "xhat": "rows cols", "y": "cols", "locks": "cols"},
    outputs={"y": Out(lambda dy, xhat: (dy * xhat).sum(0), fill=0)}, workspace={"locks": Work("int32", fill=0)},
)  # fmt: skip
