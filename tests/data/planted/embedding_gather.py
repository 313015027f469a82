"""Rows of a table by their indices."""

import numpy as np
from rows import planted

from cudalab import Launch, blocks, draw


def inputs(shape, dtype, rng):
    count, width = shape
    table = draw((50, width), dtype, rng)
    return {"table": table, "index": rng.integers(0, 50, count).astype(np.int64)}


def launch(table, index, y):
    rows, width = y.shape
    return Launch((blocks(rows, 4),), (32, 4), (table, index, y, np.int64(rows), np.int32(width)))


embedding_gather = planted(
    __file__, __doc__, launch, lambda table, index: table[index], small=(77, 100),
    edges=((1, 1), (3, 31), (2, 257), (5, 33)), shapes={"table": "words width", "index": "rows", "y": "rows width"},
    inputs=inputs,
)  # fmt: skip
