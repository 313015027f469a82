"""Product of matrices on tensor cores: float16 in, float32 out; sides are multiples of 16."""

import numpy as np

from cudalab import Budget, Kernel, Launch, Out, blocks


def launch(a, b, c):
    (m, k), n = a.shape, b.shape[1]
    args = a, b, c, *(np.int32(side) for side in (m, n, k))
    return Launch(grid=(blocks(n, 64), m // 16), block=(32, 4), args=args)


wmma_matmul = Kernel(
    file=__file__,
    summary="product of two matrices of half precision, with float32 sums",
    dtypes=("float16",),
    sizes={"small": (64, 64, 96), "large": (4096, 4096, 4096)},
    edges=((16, 16, 16), (32, 48, 80), (48, 16, 112)),
    shapes={"a": "m k", "b": "k n", "c": "m n"},
    reference=lambda a, b: a @ b,
    outputs={"c": Out(dtype="float32")},
    entries={"wmma_matmul": launch},
    budgets={"float16": Budget(64, atol=1e-4, why="a sum of k products, which cancel")},
    aligned=32,
    flops=lambda a, b: 2 * a.shape[0] * a.shape[1] * b.shape[1],
    torch=lambda a, b: a.float() @ b.float(),
)
