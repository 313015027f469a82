"""What the specs of kernels on rows share. Not a spec."""

import numpy as np

from cudalab import Budget, Launch, blocks

SIZES = {"small": (33, 300)}
EDGES = ((1, 1), (3, 31), (2, 33), (5, 257), (4, 1023))


def block_a_row(threads):
    def launch(x, y):
        return Launch((x.shape[0],), (threads,), (x, y, np.int32(x.shape[1])))

    return launch


def warp_a_row(warps):
    def launch(x, y):
        rows, cols = x.shape
        return Launch((blocks(rows, warps),), (32, warps), (x, y, np.int64(rows), np.int32(cols)))

    return launch


def budgets(ulp, atol=0.0):
    return {"float32": Budget(ulp, atol, why="sums of a row in float32")}
