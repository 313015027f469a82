"""Cross-entropy of each row."""

import numpy as np
from rows import planted

from cudalab import Budget, Launch, blocks, draw


def reference(logits, target):
    top = logits.max(axis=1, keepdims=True)
    log_sum = np.log(np.exp(logits - top).sum(axis=1)) + top[:, 0]
    return log_sum - np.take_along_axis(logits, target[:, None], 1)[:, 0]


def inputs(shape, dtype, rng):
    rows, cols = shape
    return {"logits": draw(shape, dtype, rng), "target": rng.integers(0, cols, rows).astype(np.int64)}


def launch(logits, target, y):
    rows, cols = logits.shape
    return Launch((blocks(rows, 4),), (32, 4), (logits, target, y, np.int32(rows), np.int32(cols)))


cross_entropy = planted(
    __file__, __doc__, launch, reference, Budget(16, 2e-6, why="a difference of logarithm and logit"), small=(33, 300),
    edges=((1, 1), (3, 31), (2, 33), (5, 257)), shapes={"logits": "rows cols", "target": "rows", "y": "rows"},
    inputs=inputs,
)  # fmt: skip
