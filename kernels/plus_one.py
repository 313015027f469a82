"""y = x + 1, elementwise."""

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks, draw

THREADS = 256


def reference(x):
    return x + 1


def inputs(shape, dtype, rng):
    """Without the largest integer, to which C++ cannot add 1."""
    x = draw(shape, dtype, rng)
    return {"x": np.minimum(x, np.iinfo(dtype).max - 1) if dtype.kind == "i" else x}


def scalar(x, y):
    return Launch((blocks(x.size, THREADS),), (THREADS,), (x, y, np.int64(x.size)))


def vec(x, y):
    packs = blocks(x.size, 16 // x.dtype.itemsize)
    return Launch((blocks(packs, THREADS),), (THREADS,), (x, y, np.int64(x.size)))


def composite(x):
    return x + 1


def native(x):
    import torch

    return torch.add(x, 1)


plus_one = Kernel(
    file=__file__,
    summary="y = x + 1, elementwise",
    dtypes=("float32", "int32"),
    sizes={"small": (2**16,), "large": (2**24,), "xlarge": (2**28,)},
    edges=((1,), (31,), (32,), (33,), (255,), (256,), (257,), (2**12 - 1,), (2**12 + 1,), (3, 5, 7), (0,)),
    reference=reference,
    entries={"plus_one_scalar": scalar, "plus_one_vec": vec},
    budgets={
        "float32": Budget(0.5, why="one IEEE addition, correctly rounded"),
        "int32": Budget(0, why="integers are exact"),
    },
    inputs=inputs,
    pointwise=True,
    torch=composite,
    torch_native=native,
    cupy=composite,
    elementwise="x + 1",
    triton="x + 1",
    numba="x + 1",
)
