"""y = 2 x, and every way to fail; test_supervisor.py picks entries, and changes marked lines."""

import os
import sys
import time

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks


def reference(x):
    return 2 * x


def launch(x, y):
    return Launch((blocks(x.size, 128),), (128,), (x, y, np.int32(x.size)))


def raises(x, y):
    raise ZeroDivisionError("in the launch")


def exits(x, y):
    print("bye", file=sys.stderr, flush=True)
    os._exit(3)


def greedy(x, y):
    # More than an address space holds.
    return Launch((1,), (np.empty(1 << 48, np.uint8).size,), (x, y))


def slow(x, y):
    time.sleep(0.5)
    return launch(x, y)


def inputs(shape, dtype, rng):
    print("a print", file=sys.stdout)  # as a library may print; it must not get between the messages
    return {"x": rng.standard_normal(shape).astype(dtype)}


crash = Kernel(
    file=__file__,
    summary="y = 2 x",
    dtypes=("float32",),
    sizes={"small": (1000,), "medium": (3000,), "large": (10_000,)},
    edges=((1,),),
    reference=reference,
    inputs=inputs,
    entries={
        "fine": launch,
        "slow": slow,
        "wild": launch,
        "endless": launch,
        "trap": launch,
        "misaligned": launch,
        "raises": raises,
        "exits": exits,
        "greedy": greedy,
        "also_fine": launch,
    },
    budgets={"float32": Budget(0.5, why="exact")},
    pointwise=True,
)
