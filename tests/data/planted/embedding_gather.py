"""Rows of a table by their indices."""

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks, draw


def inputs(shape, dtype, rng):
    count, width = shape
    table = draw((50, width), dtype, rng)
    return {"table": table, "index": rng.integers(0, 50, count).astype(np.int64)}


def launch(table, index, y):
    rows, width = y.shape
    return Launch((blocks(rows, 4),), (32, 4), (table, index, y, np.int64(rows), np.int32(width)))


embedding_gather = Kernel(
    file=__file__, summary="rows of a table", dtypes=("float32",), sizes={"small": (77, 100)},
    shapes={"table": "words width", "index": "rows", "y": "rows width"},
    edges=((1, 1), (3, 31), (2, 257), (5, 33)), reference=lambda table, index: table[index], inputs=inputs,
    entries={"embedding_gather": launch},
    budgets={"float32": Budget(0, why="values are moved")},
)  # fmt: skip
