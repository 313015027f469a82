"""Asynchronous copies to shared memory: by __pipeline_memcpy_async, and by cuda::pipeline; y is updated in place."""

import numpy as np

from cudalab import Budget, Kernel, Launch, Scalar


def launch(y, x, a):
    return Launch(grid=(3,), block=(128,), args=(y, x, a, np.int32(x.size)))


cp_async_copy = Kernel(
    file=__file__,
    summary="y + a x through shared memory",
    dtypes=("float32",),
    sizes={"small": (5000,), "large": (2**24,)},
    edges=((1,), (511,), (1537,), (4096,)),
    shapes={"y": "n", "x": "n"},
    reference=lambda y, x, a: y + a * x,
    output="y",
    scalars={"a": Scalar(0.7)},
    entries={"saxpy_staged": launch, "saxpy_pipeline": launch},
    budgets=Budget(1, atol=1e-6, why="a x and y may cancel"),
    aligned=16,
    torch=lambda y, x, a: y + a * x,
)
