import numpy as np

from cudalab import Budget, Kernel, Launch
from cudalab.spec.inputs import draw


def inputs(shape, dtype, rng):
    m, n, k = shape
    return {"a": draw((m, k), np.dtype(np.int8), rng), "b": draw((n, k), np.dtype(np.int8), rng)}


def launch(a, b, y):
    (m, k), n = a.shape, b.shape[0]
    return Launch((-(-n // 16), -(-m // 16)), (16, 16), (a, b, y, np.int32(m), np.int32(n), np.int32(k)))


dp4a_matmul = Kernel(
    file=__file__,
    summary="product of int8 matrices in int32",
    dtypes=("int32",),
    sizes={"small": (64, 48, 64), "large": (2048, 2048, 2048)},
    edges=((1, 1, 4), (17, 31, 12), (3, 65, 128)),
    reference=lambda a, b: a.astype(np.int64) @ b.astype(np.int64).T,
    entries={"dp4a_matmul": launch},
    budgets={"int32": Budget(0, why="exact")},
    inputs=inputs,
    aligned={"a": 4, "b": 4},
    shapes={"a": "m k", "b": "n k", "y": "m n"},
)
