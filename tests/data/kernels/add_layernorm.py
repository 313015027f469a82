"""Residual and layer norm: two outputs, the second judged by what the kernel wrote to the first; float32 weights."""

import numpy as np

from cudalab import Budget, In, Kernel, Launch, Out, Scalar, blocks


def layernorm(residual, weight, bias, eps):
    centred = residual - residual.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + eps) * weight + bias


def fused(residual, normed, x, update, weight, bias, eps):
    rows, cols = x.shape
    args = residual, normed, x, update, weight, bias, eps, np.int32(rows), np.int32(cols)
    return Launch(grid=(blocks(rows, 4),), block=(128,), args=args)


def eager(x, update, weight, bias, eps: float):
    residual = x + update
    wide = residual.float()
    centred = wide - wide.mean(1, keepdim=True)
    normed = centred * (centred.pow(2).mean(1, keepdim=True) + eps).rsqrt() * weight + bias
    return residual, normed.to(x.dtype)


def native(x, update, weight, bias, eps):
    from torch.nn.functional import layer_norm

    residual = x + update
    return residual, layer_norm(residual.float(), weight.shape, weight, bias, eps).to(x.dtype)


INSIDE = "float32 inside, one rounding at the end"
UNROUNDED = "torch.compile normalises the sum before it is rounded to the dtype"

add_layernorm = Kernel(
    file=__file__,
    summary="sum of two arrays, and the layer norm of each row of it",
    dtypes=("float32", "float16", "bfloat16"),
    sizes={"small": (64, 768), "large": (8192, 4096)},
    edges=((1, 32), (5, 31), (3, 257), (9, 100)),
    shapes={"x": "rows cols", "update": "rows cols", "weight": "cols", "bias": "cols"},
    inputs={"weight": In("float32"), "bias": In("float32")},
    outputs={
        "residual": Out(lambda x, update: x + update, budgets=Budget(0.5, why="one sum")),
        "normed": Out(layernorm),
    },
    scalars={"eps": Scalar(1e-5)},
    entries={"fused_residual_layernorm": fused},
    budgets={
        "float32": Budget(16, atol=4e-6, why="mean and variance of cols elements; the bias may cancel"),
        "float16": Budget(1, atol=1e-6, why=INSIDE),
        "bfloat16": Budget(1, atol=1e-6, why=INSIDE),
    },
    peers={
        "float16": Budget(4, atol=6e-3, why=UNROUNDED),
        "bfloat16": Budget(4, atol=5e-2, why=UNROUNDED),
    },
    torch=eager,
    torch_native=native,
)
