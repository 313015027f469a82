"""Gradients of the root mean square norm of each row, to the matrix and to the weights."""

import numpy as np

from cudalab import Budget, Kernel, Launch, Out, Scalar, Work
from cudalab.kernels._norm_gradients import add_partial, by_columns, by_rows, gradient_matrix_row, partial_rows

THREADS = 256  # of a block of rmsnorm_backward_rows


def _scale(x, eps):
    return 1 / np.sqrt((x**2).mean(axis=1, keepdims=True) + eps)


def gradient(dy, x, weight, eps):
    g, scale = dy * weight, _scale(x, eps)
    return scale * (g - x * scale**2 * (g * x).mean(axis=1, keepdims=True))


def of_weight(dy, x, eps):
    return (dy * x * _scale(x, eps)).sum(axis=0)


def roundings(dy, x, eps):
    return 2**-22 * np.abs(dy * x * _scale(x, eps)).sum(axis=0)


def matrices_and_row(shape, dtype, rng):
    return dict(zip(("dy", "x", "weight"), gradient_matrix_row(shape, dtype, rng, small=2**-3), strict=True))


def plain(dy, x, weight, dx, dweight, scales, partial, eps):
    rows, cols = x.shape
    return (
        Launch((rows,), (THREADS,), (dy, x, weight, dx, scales, np.int64(cols), eps)),
        by_columns((dy, x, scales, dweight), np.int64(rows), cols, "rmsnorm_backward_columns"),
    )


def vec(dy, x, weight, dx, dweight, scales, partial, eps):
    return (
        by_rows((dy, x, weight, dx, partial), x, eps, "rmsnorm_backward"),
        add_partial((partial, dweight), x, "rmsnorm_backward_add"),
    )


def composite(dy, x, weight, eps: float):
    wide, g = x.float(), dy.float() * weight.float()
    scale = (wide.pow(2).mean(1, keepdim=True) + eps).rsqrt()
    dx = scale * (g - wide * scale.pow(2) * (g * wide).mean(1, keepdim=True))
    return dx.to(x.dtype), (dy.float() * wide * scale).sum(0).to(x.dtype)


def native(dy, x, weight, eps):
    """Its statistics are made here. A forward pass would have left them, and the lab's kernel is called without."""
    import torch

    if not x.is_cuda:
        return composite(dy, x, weight, eps)  # PyTorch has the kernel for GPUs only
    scale = (x.float().pow(2).mean(1, keepdim=True) + eps).rsqrt()
    return torch.ops.aten._fused_rms_norm_backward(dy, x, weight.shape, scale, weight, (True, True))


EDGES = (  # the long ones at the end: every number of packs a thread can keep, in each dtype, and more than it keeps
    (1, 1), (5, 3), (3, 31), (6, 33), (9, 128), (300, 8), (2, 257), (3, 1023), (2, 1032), (2, 4099), (3, 8184),
    (3, 3080), (2, 8200), (2, 16392), (0, 8),
)  # fmt: skip
CANCELS = "g - x s cancels where they are close: a few roundings of numbers up to 8 times 16"
ADDED = "a sum over the rows of terms of either sign, each with four roundings"
INSIDE = "float32 inside, one rounding at the end"

rmsnorm_backward = Kernel(
    file=__file__,
    summary="gradients of the root mean square norm of each row, to the matrix and to the weights",
    dtypes=("float32", "float16", "bfloat16"),
    sizes={
        "small": (128, 768),
        "large": (8192, 4096),
        "xlarge": (32768, 4096),
        "short": (262144, 128),
        "long": (4096, 16384),
    },
    edges=EDGES,
    outputs={
        "dx": Out(gradient),
        "dweight": Out(of_weight, budgets={
            "float32": Budget(8, roundings, ADDED),
            "float16": Budget(1, roundings, ADDED),
            "bfloat16": Budget(1, roundings, ADDED),
        }),
    },
    scalars={"eps": Scalar(1e-6)},
    entries={"rmsnorm_backward_plain": plain, "rmsnorm_backward_vec": vec},
    called=lambda dy, x, weight: "rmsnorm_backward_vec",
    workspace={"scales": Work("float32"), "partial": Work("float32")},
    budgets={
        "float32": Budget(4, 2e-5, CANCELS),
        "float16": Budget(1, 2e-5, CANCELS),
        "bfloat16": Budget(1, 2e-5, CANCELS),
    },
    inputs=matrices_and_row,
    shapes={
        "dy": "rows cols", "x": "rows cols", "weight": "cols", "dx": "rows cols", "dweight": "cols", "scales": "rows",
        "partial": lambda x: (partial_rows(x), x[1]),
    },
    torch=composite,
    torch_native=native,
    triton="triton/rmsnorm_backward.py",
)  # fmt: skip
