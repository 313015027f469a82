"""Gradient of GELU (erf form), elementwise."""

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks
from cudalab.kernels._h200 import AT_ONCE, even_threads


def reference(dy, x):
    from scipy.special import ndtr  # Phi, accurate in both tails

    return dy * (ndtr(x) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi))


def scalar(dy, x, dx):
    threads = even_threads(x.size)
    return Launch((blocks(x.size, threads),), (threads,), (dy, x, dx, np.int64(x.size)))


def vec(dy, x, dx, VEC_THREADS):
    packs = blocks(x.size, 16 // x.dtype.itemsize)
    return Launch((blocks(packs, VEC_THREADS),), (VEC_THREADS,), (dy, x, dx, np.int64(x.size)))


def called(dy, x):
    return "gelu_backward_scalar" if x.size <= AT_ONCE else "gelu_backward_vec"


def composite(dy, x):
    cdf = 0.5 * (1.0 + (x * 0.7071067811865476).erf())
    return dy * (cdf + x * (x * x * -0.5).exp() * 0.3989422804014327)


def native(dy, x):
    import torch

    return torch.ops.aten.gelu_backward(dy, x, approximate="none")


def cupy_composite(dy, x):
    import cupy
    from cupyx.scipy.special import ndtr  # Phi, one array operation

    density = cupy.exp(x * x * -0.5) * 0.3989422804014327
    return (dy * (ndtr(x.astype("float32", copy=False)) + x * density)).astype(x.dtype, copy=False)


FITTED = (
    "the change of sign at -0.75 is a factor of its own and the rest fitted in relative error: a handful of roundings"
)
INSIDE = "float32 inside, one rounding at the end"
CANCELS = "of the peers: Phi(x) + x phi(x) cancels around -0.75 and in the negative tail"
ROUNDS = "each array operation rounds to the dtype, and Phi(x) + x phi(x) is small where its terms are not"

gelu_backward = Kernel(
    file=__file__,
    summary="dx = dy * (Phi(x) + x * phi(x)), the gradient of GELU (erf form), elementwise",
    dtypes=("float32", "float16", "bfloat16"),
    sizes={"small": (1, 3, 224, 224), "large": (32, 3, 224, 224), "xlarge": (1024, 3, 224, 224)},
    edges=((1,), (31,), (32,), (33,), (127,), (128,), (129,), (2**12 - 1,), (2**12 + 1,), (3, 5, 7), (0,)),
    reference=reference,
    entries={"gelu_backward_scalar": scalar, "gelu_backward_vec": vec},
    called=called,
    budgets={
        "float32": Budget(4, why=FITTED),
        "float16": Budget(1, why=INSIDE),
        "bfloat16": Budget(1, why=INSIDE),
    },
    peers={
        "float32": Budget(4, 2e-6, CANCELS),
        "float16": Budget(1, 2e-6, CANCELS),
        "bfloat16": Budget(1, 2e-6, CANCELS),
    },
    composed={"float16": Budget(4, 4e-3, ROUNDS), "bfloat16": Budget(4, 3.2e-2, ROUNDS)},
    output="dx",
    pointwise=True,
    tunables={"VEC_THREADS": (128, 64, 256, 512)},
    torch=composite,
    torch_native=native,
    cupy=cupy_composite,
    elementwise="gelu_backward(dy, x)",
    triton="dy * (0.5 * (1.0 + tl.math.erf(x * 0.7071067811865476)) + x * tl.exp(x * x * -0.5) * 0.3989422804014327)",
)
