"""Dropout with a hash of the index."""

import numpy as np
from rows import planted

from cudalab import Budget, Launch, blocks


def reference(x):
    v = np.arange(x.size, dtype=np.uint32)
    v ^= v >> np.uint32(16)
    v *= np.uint32(0x7FEB352D)
    v ^= v >> np.uint32(15)
    v *= np.uint32(0x846CA68B)
    v ^= v >> np.uint32(16)
    return np.where(v.reshape(x.shape) < 0x40000000, 0.0, x / 0.75)


def inputs(shape, dtype, rng):
    return {"x": np.where(rng.random(shape) < 0.05, np.inf, rng.standard_normal(shape)).astype(dtype)}


dropout_hash = planted(
    __file__, __doc__, lambda x, y: Launch((blocks(x.size, 256),), (256,), (x, y, np.int64(x.size))), reference,
    Budget(2, why="two roundings"), small=(5000,), edges=((1,), (31,), (257,), (1025,)), shapes={"x": "n"},
    inputs=inputs,
)  # fmt: skip
