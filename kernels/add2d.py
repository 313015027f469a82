"""Sum of two row-major matrices on a 2-D grid."""

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks, counted_sides, deep_grid
from cudalab.spec.launch import MAX_GRID_Y

THREADS = 256
TALL = (16 * MAX_GRID_Y + 17, 1)  # taller than a grid in y can be, so its grid uses z


def reference(a, b):
    return a + b


def plain(a, b, y):
    rows, cols = a.shape
    return Launch(deep_grid(blocks(cols, 16), blocks(rows, 16)), (16, 16), (a, b, y, *counted_sides(a.shape)))


def vec(a, b, y):
    packs = blocks(a.size, 16 // a.dtype.itemsize)
    return Launch((blocks(packs, THREADS),), (THREADS,), (a, b, y, np.int64(a.size)))


def composite(a, b):
    return a + b


def native(a, b):
    import torch

    return torch.add(a, b)


add2d = Kernel(
    file=__file__,
    summary="y = a + b, row-major matrices on a 2-D grid",
    dtypes=("float32",),
    sizes={
        "tiny": (5, 2),
        "small": (512, 512),
        "odd": (1023, 769),
        "large": (4096, 4096),
        "xlarge": (16384, 16384),
    },
    edges=((1, 1), (5, 2), (1, 129), (129, 1), (15, 17), (16, 16), (33, 31), (127, 257), (0, 7), (7, 0), TALL),
    reference=reference,
    entries={"add2d_plain": plain, "add2d_vec": vec},
    budgets={"float32": Budget(0.5, why="one IEEE addition, correctly rounded")},
    pointwise=True,
    shapes={"a": "rows cols", "b": "rows cols"},
    torch=composite,
    torch_native=native,
    cupy=composite,
    elementwise="a + b",
    triton="a + b",
)
