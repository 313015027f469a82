"""GELU, tanh form, elementwise."""

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks
from cudalab.kernels._h200 import AT_ONCE, even_threads

MANY = 2**18  # packs of 16 bytes from which on a thread of gelu_tanh_vec takes several


def reference(x):
    """x / (1 + exp(-2u)) equals x/2 * (1 + tanh(u)) and does not cancel for x < 0."""
    from scipy.special import expit

    return x * expit(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))


def scalar(x, y):
    threads = even_threads(x.size)
    return Launch((blocks(x.size, threads),), (threads,), (x, y, np.int64(x.size)))


def vec(x, y, VEC_THREADS, VEC_PACKS):
    packs = blocks(x.size, 16 // x.dtype.itemsize)
    each = VEC_PACKS if packs >= MANY else 1
    return Launch((blocks(packs, VEC_THREADS * each),), (VEC_THREADS,), (x, y, np.int64(x.size), np.int32(each)))


def called(x):
    return "gelu_tanh_scalar" if x.size <= AT_ONCE else "gelu_tanh_vec"


def composite(x):
    return x * 0.5 * (1.0 + (0.7978845608028654 * (x + 0.044715 * x * x * x)).tanh())


def native(x):
    from torch.nn.functional import gelu

    return gelu(x, approximate="tanh")


def backward(dy, x):
    """PyTorch's own: the lab has no kernel for this gradient."""
    import torch

    return torch.ops.aten.gelu_backward(dy, x, approximate="tanh")


def cupy_composite(x):
    import cupy

    return x * 0.5 * (1.0 + cupy.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


FITTED = "x / (1 + exp(-2u)) does not cancel: a handful of float32 roundings in the tail as elsewhere"
INSIDE = "float32 inside, one rounding at the end"
CANCELS = "of the peers: 1 + tanh cancels in the negative tail"
ROUNDS = "each array operation rounds to the dtype, so 1 + tanh(...) carries |x| / 2 roundings of 1 into the tail"

gelu_tanh = Kernel(
    file=__file__,
    summary="y = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), elementwise",
    dtypes=("float32", "float16", "bfloat16"),
    sizes={"small": (1, 3, 224, 224), "large": (32, 3, 224, 224), "xlarge": (1024, 3, 224, 224)},
    edges=((1,), (31,), (32,), (33,), (127,), (128,), (129,), (2**12 - 1,), (2**12 + 1,), (3, 5, 7), (0,)),
    reference=reference,
    entries={"gelu_tanh_scalar": scalar, "gelu_tanh_vec": vec},
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
    composed={"float16": Budget(4, 2e-3, ROUNDS), "bfloat16": Budget(4, 1.6e-2, ROUNDS)},
    pointwise=True,
    tunables={"VEC_THREADS": (128, 64, 256, 512), "VEC_PACKS": (2, 1, 4)},
    torch=composite,
    torch_native=native,
    backward=backward,
    cupy=cupy_composite,
    elementwise="gelu_tanh(x)",
    triton="x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))",
)
