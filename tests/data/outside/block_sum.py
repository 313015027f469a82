import numpy as np

from cudalab import Budget, Kernel, Launch

THREADS = 256


def shuffle(x, y):
    rows, cols = x.shape
    return Launch((rows,), (THREADS,), (x, y, np.int32(cols)))


def tree(x, y):
    rows, cols = x.shape
    return Launch((rows,), (THREADS,), (x, y, np.int32(cols)), THREADS * x.dtype.itemsize)


def positive(shape, dtype, rng):
    """Values of one sign: where terms cancel, no number of ULP of the sum bounds the error of any order of adding."""
    if dtype.kind == "i":
        return {"x": rng.integers(0, 1000, shape, dtype)}
    return {"x": rng.random(shape, dtype)}


def eager(x):
    return x.sum(1, dtype=x.dtype)


def cupy_form(x):
    return x.sum(axis=1, dtype=x.dtype)


block_sum = Kernel(
    file=__file__,
    summary="sum of each row",
    dtypes=("float32", "int32"),
    sizes={"small": (64, 1000), "large": (4096, 4096)},
    edges=((1, 1), (3, 31), (5, 33), (2, 257), (7, 1023)),
    reference=lambda x: x.sum(axis=1),
    entries={"block_sum_shuffle": shuffle, "block_sum_tree": tree},
    budgets={
        "float32": Budget(32, why="each of cols / 256 + 8 additions in a row errs by at most 1 ULP of the sum"),
        "int32": Budget(0, why="exact: 1000 * cols stays below 2^31"),
    },
    inputs=positive,
    shapes={"x": "rows cols", "y": "rows"},
    torch=eager,
    cupy=cupy_form,
)
