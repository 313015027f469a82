"""What the specs of this folder share. Not a spec."""

from pathlib import Path

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks

MOVED = Budget(0, why="values are moved")


def planted(file, summary, launch, reference, budget=MOVED, small=(33, 300), edges=None, **fields):
    """A spec of float32 with one entry, of its file's name; by default of arrays `x` and `y` with rows and columns."""
    given = {
        "dtypes": ("float32",), "sizes": {"small": small}, "shapes": {"x": "rows cols"},
        "edges": edges or ((1, 1), (3, 31), (2, 33), (5, 257), (4, 1023)),
    }  # fmt: skip
    entries = {Path(file).stem: launch}
    return Kernel(file=file, summary=summary, entries=entries, reference=reference, budgets=budget, **given | fields)


def block_a_row(threads):
    def launch(x, y):
        return Launch((x.shape[0],), (threads,), (x, y, np.int32(x.shape[1])))

    return launch


def warp_a_row(warps):
    def launch(x, y):
        rows, cols = x.shape
        return Launch((blocks(rows, warps),), (32, warps), (x, y, np.int64(rows), np.int32(cols)))

    return launch


def sums(ulp, atol=0.0):
    return Budget(ulp, atol, why="sums of a row in float32")
