"""Embedding: int64 indices, and bytes of the rows that are read instead of the whole table."""

import numpy as np

from cudalab import Budget, In, Kernel, Launch


def launch(table, index, y):
    return Launch(grid=index.shape, block=(64,), args=(y, index, table, np.int32(table.shape[1])))


def native(table, index):
    from torch.nn.functional import embedding

    return embedding(index, table)


embedding = Kernel(
    file=__file__,
    summary="rows of a table by index",
    dtypes=("float32", "float16", "bfloat16"),
    sizes={"small": (1000, 96, 300), "large": (50304, 4096, 8192)},
    edges=((1, 1, 1), (7, 63, 5), (300, 65, 2)),
    shapes={"table": "vocabulary width", "index": "n", "y": "n width"},
    inputs={"index": In("int64", 0, "vocabulary")},
    reference=lambda table, index: table[index],
    entries={"embedding_forward": launch},
    bytes=lambda table, index: index.nbytes + 2 * index.size * table.shape[1] * table.itemsize,
    budgets=Budget(0, why="a copy"),
    torch=lambda table, index: table[index],
    torch_native=native,
)
