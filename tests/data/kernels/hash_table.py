"""A hash table with linear probing: atomicCAS on a workspace that is filled, then a lookup."""

import numpy as np

from cudalab import Budget, Kernel, Launch, Work, blocks

EMPTY = 0xFFFFFFFF


def inputs(shape, dtype, rng):
    found = rng.permutation(np.arange(1, 4 * shape[0] + 1, dtype=np.uint32))[: 2 * shape[0]]
    values = rng.integers(0, 2**31, shape, dtype=np.uint32)
    return {"keys": found[: shape[0]], "values": values, "queries": rng.permutation(found)[: shape[0]]}


def reference(keys, values, queries):
    table = dict(zip(keys.tolist(), values.tolist(), strict=True))
    return np.array([table.get(query, EMPTY) for query in queries.tolist()], np.uint32)


def capacity(keys, values, queries):
    return (1 << int(2 * keys[0]).bit_length(),)


def launches(keys, values, queries, found, table_keys, table_values):
    grid, n, slots = (blocks(keys.size, 128),), np.uint32(keys.size), np.uint32(table_keys.size)
    return (
        Launch(grid, (128,), (table_keys, table_values, keys, values, n, slots), entry="gpu_hashtable_insert"),
        Launch(grid, (128,), (table_keys, table_values, queries, found, n, slots), entry="gpu_hashtable_lookup"),
    )


hash_table = Kernel(
    file=__file__,
    summary="the value of each query's key",
    dtypes=("uint32",),
    sizes={"small": (2000,), "large": (2**22,)},
    edges=((1,), (127,), (129,)),
    shapes={
        **dict.fromkeys(("keys", "values", "queries", "found"), "n"), "table_keys": capacity, "table_values": capacity,
    },
    inputs=inputs,
    reference=reference,
    output="found",
    workspace={"table_keys": Work(fill=EMPTY), "table_values": Work()},
    entries={"hash_table": launches},
    budgets=Budget(0, why="found"),
)  # fmt: skip
