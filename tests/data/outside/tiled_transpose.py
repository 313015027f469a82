import numpy as np

from cudalab import Budget, Kernel, Launch, blocks

TILE = 32


def static(x, y):
    rows, cols = x.shape
    return Launch((blocks(cols, TILE), blocks(rows, TILE)), (TILE, 8), (x, y, np.int32(rows), np.int32(cols)))


def dynamic(x, y):
    rows, cols = x.shape
    grid = (blocks(cols, TILE), blocks(rows, TILE))
    shared = TILE * (TILE + 1) * x.dtype.itemsize
    return Launch(grid, (TILE, 8), (x, y, np.int32(rows), np.int32(cols)), shared)


def eager(x):
    return x.t().contiguous()


def cupy_form(x):
    import cupy

    return cupy.ascontiguousarray(x.T)


EXACT = Budget(0, why="elements are moved, not computed")

tiled_transpose = Kernel(
    file=__file__,
    summary="transpose of a matrix",
    dtypes=("float32", "int32"),
    sizes={"small": (100, 200), "large": (4096, 4000)},
    edges=((1, 1), (1, 33), (31, 1), (32, 32), (33, 65), (129, 127)),
    reference=lambda x: np.ascontiguousarray(x.T),
    entries={"transpose_static": static, "transpose_dynamic": dynamic},
    budgets={"float32": EXACT, "int32": EXACT},
    shapes={"x": "rows cols", "y": "cols rows"},
    torch=eager,
    cupy=cupy_form,
)
