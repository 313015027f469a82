"""Dropout with a hash of the index."""

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks


def reference(x):
    v = np.arange(x.size, dtype=np.uint32)
    v ^= v >> np.uint32(16)
    v *= np.uint32(0x7FEB352D)
    v ^= v >> np.uint32(15)
    v *= np.uint32(0x846CA68B)
    v ^= v >> np.uint32(16)
    return np.where(v.reshape(x.shape) < 0x40000000, 0.0, x / 0.75)


dropout_hash = Kernel(
    file=__file__, summary="dropout", dtypes=("float32",), sizes={"small": (5000,)},
    shapes={"x": "n"},
    edges=((1,), (31,), (257,), (1025,)), reference=reference,
    entries={"dropout_hash": lambda x, y: Launch((blocks(x.size, 256),), (256,), (x, y, np.int64(x.size)))},
    inputs=lambda shape, dtype, rng: {
        "x": np.where(rng.random(shape) < 0.05, np.inf, rng.standard_normal(shape)).astype(dtype)
    },
    budgets={"float32": Budget(2, why="two roundings")},
)  # fmt: skip
