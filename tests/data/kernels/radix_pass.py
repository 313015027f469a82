"""One pass of a radix sort: three launches; votes and matches within a warp keep it stable."""

import numpy as np

from cudalab import Budget, Kernel, Launch, Work, blocks

SHIFT = np.int32(4)


def launches(keys, out, hist):
    grid, n = blocks(keys.size, 128), np.int32(keys.size)
    return (
        Launch((grid,), (128,), (keys, hist, n, SHIFT), entry="radix_histogram"),
        Launch((1,), (1024,), (hist, np.int32(hist.size)), entry="radix_scan"),
        Launch((grid,), (128,), (keys, out, hist, n, SHIFT), entry="radix_scatter"),
    )


radix_pass = Kernel(
    file=__file__,
    summary="keys in the order of four of their bits, equal ones as they were",
    dtypes=("uint32",),
    sizes={"small": (20_000,), "large": (2**24,)},
    edges=((1,), (127,), (129,), (1000,)),
    shapes={"keys": "n", "out": "n", "hist": "16*((n+127)//128)"},
    reference=lambda keys: keys[np.argsort((keys >> np.uint32(SHIFT)) & 15, kind="stable")],
    output="out",
    workspace={"hist": Work()},
    entries={"radix_pass": launches},
    budgets=Budget(0, why="moved"),
)
