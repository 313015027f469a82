"""Scan by decoupled look-back: blocks wait for each other through volatile flags in a workspace that begins at zero."""

import numpy as np

from cudalab import Budget, In, Kernel, Launch, Work, blocks

BLOCK = 256
STATE = f"(n+{BLOCK - 1})//{BLOCK}"


def launch(out, x, flags, aggregates, prefixes, ticket):
    grid = (blocks(x.size, BLOCK),)
    return Launch(grid, (BLOCK,), (out, x, flags, aggregates, prefixes, ticket, np.int32(x.size)))


lookback_scan = Kernel(
    file=__file__,
    summary="inclusive sum of integers",
    dtypes=("int32",),
    sizes={"small": (10_000,), "large": (2**24,)},
    edges=((1,), (255,), (257,), (1537,)),
    shapes={"x": "n", "flags": STATE, "aggregates": STATE, "prefixes": STATE, "ticket": "1"},
    inputs={"x": In(low=-64, high=64)},
    reference=lambda x: np.cumsum(x),
    output="out",
    workspace={"flags": Work(fill=0), "aggregates": Work(), "prefixes": Work(), "ticket": Work(fill=0)},
    entries={"lookback_scan": launch},
    budgets=Budget(0, why="integers"),
    torch=lambda x: x.cumsum(0).int(),
)
