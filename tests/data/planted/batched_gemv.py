"""A matrix times a vector for each batch."""

import numpy as np
from rows import planted

from cudalab import Budget, Launch, blocks


def launch(a, x, y):
    batch, m, n = a.shape
    return Launch((blocks(m, 4), batch), (32, 4), (a, x, y, np.int32(m), np.int32(n)))


batched_gemv = planted(
    __file__, __doc__, launch, lambda a, x: np.einsum("bmn,bn->bm", a, x),
    Budget(16, 1e-4, why="sums of up to 400 terms that may cancel"), small=(3, 300, 400),
    edges=((1, 1, 1), (2, 5, 31), (3, 9, 33), (5, 4, 257)), shapes={"a": "batch m n", "x": "batch n", "y": "batch m"},

)  # fmt: skip
