"""Gradients of the layer normalisation of each row, to the matrix, gamma and beta."""

import numpy as np

from cudalab import Budget, Kernel, Launch, Out, Work
from cudalab.kernels._norm_gradients import add_partial, by_columns, by_rows, gradient_matrix_row, partial_rows
from cudalab.kernels.layernorm import EPS

THREADS = 256  # of a block of layernorm_backward_rows


def _normal(x):
    """x minus the mean of its row, and what that is multiplied by."""
    d = x - x.mean(axis=1, keepdims=True)
    return d, 1 / np.sqrt((d**2).mean(axis=1, keepdims=True) + EPS)


def gradient(dy, x, gamma):
    g, (d, scale) = dy * gamma, _normal(x)
    return scale * (g - g.mean(axis=1, keepdims=True) - d * scale**2 * (g * d).mean(axis=1, keepdims=True))


def of_gamma(dy, x):
    d, scale = _normal(x)
    return (dy * d * scale).sum(axis=0)


def in_gamma(dy, x):
    """Roundings of the terms; a mean is rounded as the sums of which it is made, even where it is near 0."""
    d, scale = _normal(x)
    of_mean = np.abs(x).mean(axis=1, keepdims=True) / 4
    return 2**-22 * (np.abs(dy) * (np.abs(x) + np.abs(x - d) + of_mean) * scale).sum(axis=0)


def in_beta(dy):
    return 2**-22 * np.abs(dy).sum(axis=0)


def matrices_and_row(shape, dtype, rng):
    """The mean of one row is large beside its deviation."""
    dy, x, gamma = gradient_matrix_row(shape, dtype, rng, small=2**-3)
    x[2:3] += 4
    return {"dy": dy, "x": x, "gamma": gamma}


def plain(dy, x, gamma, dx, dgamma, dbeta, means, scales, partial):
    rows, cols = x.shape
    return (
        Launch((rows,), (THREADS,), (dy, x, gamma, dx, means, scales, np.int64(cols), np.float32(EPS))),
        by_columns((dy, x, means, scales, dgamma, dbeta), np.int64(rows), cols, "layernorm_backward_columns", 2),
    )


def vec(dy, x, gamma, dx, dgamma, dbeta, means, scales, partial):
    return (
        by_rows((dy, x, gamma, dx, partial), x, np.float32(EPS), "layernorm_backward"),
        add_partial((partial, dgamma, dbeta), x, "layernorm_backward_add", 2),
    )


def composite(dy, x, gamma):
    wide, gradient = x.float(), dy.float()
    g, d = gradient * gamma.float(), wide - wide.mean(1, keepdim=True)
    scale = ((d * d).mean(1, keepdim=True) + 1e-5).rsqrt()
    dx = scale * (g - g.mean(1, keepdim=True) - d * scale.pow(2) * (g * d).mean(1, keepdim=True))
    return dx.to(x.dtype), (gradient * d * scale).sum(0).to(x.dtype), gradient.sum(0).to(x.dtype)


def native(dy, x, gamma):
    """Its statistics are made here. A forward pass would have left them, and the lab's kernel is called without."""
    import torch

    kind = x.dtype
    if not x.is_cuda:  # PyTorch's CPU code wants the statistics in the dtype of x
        dy, x, gamma = dy.float(), x.float(), gamma.float()
    variance, mean = torch.var_mean(x.float(), 1, correction=0, keepdim=True)
    scale, every = (variance + 1e-5).rsqrt(), (True, True, True)
    found = torch.ops.aten.native_layer_norm_backward(dy, x, gamma.shape, mean, scale, gamma, gamma, every)
    return tuple(one.to(kind) for one in found)


EDGES = (  # the long ones at the end: every number of packs a thread can keep, in each dtype, and more than it keeps
    (1, 2), (5, 3), (3, 31), (6, 33), (9, 128), (300, 8), (2, 257), (3, 1023), (2, 1032), (2, 4099), (3, 8184),
    (3, 3080), (2, 8200), (2, 16392), (0, 8),
)  # fmt: skip
CANCELS = "three terms of up to 8 times 16 cancel where they are close: a few roundings of them"
ADDED = "a sum over the rows of terms of either sign, each with four roundings"
INSIDE = "float32 inside, one rounding at the end"

layernorm_backward = Kernel(
    file=__file__,
    summary="gradients of the layer normalisation of each row, to the matrix, gamma and beta, eps = 1e-5",
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
        "dgamma": Out(of_gamma, budgets={
            "float32": Budget(8, in_gamma, ADDED), "float16": Budget(1, in_gamma, ADDED),
            "bfloat16": Budget(1, in_gamma, ADDED),
        }),
        "dbeta": Out(lambda dy: dy.sum(axis=0), budgets={
            "float32": Budget(8, in_beta, ADDED), "float16": Budget(1, in_beta, ADDED),
            "bfloat16": Budget(1, in_beta, ADDED),
        }),
    },
    entries={"layernorm_backward_plain": plain, "layernorm_backward_vec": vec},
    called=lambda dy, x, gamma: "layernorm_backward_vec",
    workspace={"means": Work("float32"), "scales": Work("float32"), "partial": Work("float32")},
    budgets={
        "float32": Budget(4, 2e-5, CANCELS),
        "float16": Budget(1, 2e-5, CANCELS),
        "bfloat16": Budget(1, 2e-5, CANCELS),
    },
    inputs=matrices_and_row,
    shapes={
        "dy": "rows cols", "x": "rows cols", "gamma": "cols", "dx": "rows cols", "dgamma": "cols", "dbeta": "cols",
        "means": "rows", "scales": "rows", "partial": lambda x: (2, partial_rows(x), x[1]),
    },
    torch=composite,
    torch_native=native,
    triton="triton/layernorm_backward.py",
)  # fmt: skip
