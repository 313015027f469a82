"""RMSNorm: float4 loads of aligned arrays, and a scalar."""

import numpy as np

from cudalab import Budget, Kernel, Launch, Scalar


def native(inp, weight, eps):
    from torch.nn.functional import rms_norm

    return rms_norm(inp, weight.shape, weight, eps)


rmsnorm = Kernel(
    file=__file__,
    summary="root mean square norm of each row",
    dtypes=("float32",),
    sizes={"small": (128, 1024), "large": (8192, 4096)},
    edges=((1, 4), (3, 64), (2, 1028), (5, 2044)),
    shapes={"inp": "rows cols", "weight": "cols"},
    reference=lambda inp, weight, eps: inp * weight / np.sqrt((inp**2).mean(axis=1, keepdims=True) + eps),
    scalars={"eps": Scalar(1e-6)},
    output="out",
    entries={
        "rmsnorm": lambda out, inp, weight, eps: Launch(
            grid=(inp.shape[0],), block=(256,), args=(out, inp, weight, eps, np.int32(inp.shape[1]))
        )
    },
    budgets=Budget(8, why="a sum of cols squares, rsqrtf, two products"),
    aligned=16,
    torch=lambda inp, weight, eps: inp * (inp.pow(2).mean(1, keepdim=True) + eps).rsqrt() * weight,
    torch_native=native,
)
