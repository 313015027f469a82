"""GELU, exact (erf) form, elementwise."""

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks
from cudalab.kernels._h200 import AT_ONCE, even_threads

MANY = 2**18  # packs of 16 bytes from which on a thread of gelu_vec takes several
LARGE = 2**21  # packs of 16 bytes from which on L2 is too small


def reference(x):
    from scipy.special import ndtr  # Phi, accurate in both tails

    return x * ndtr(x)


def scalar(x, y):
    threads = even_threads(x.size)
    return Launch((blocks(x.size, threads),), (threads,), (x, y, np.int64(x.size)))


def packs_of(x):
    return blocks(x.size, 16 // x.dtype.itemsize)


def full(x, y, VEC_THREADS, VEC_PACKS):
    return Launch((blocks(packs_of(x), VEC_THREADS * VEC_PACKS),), (VEC_THREADS,), (x, y, np.int64(x.size)))


def vec(x, y, VEC_THREADS, VEC_PACKS):
    each = VEC_PACKS if packs_of(x) >= MANY else 1
    return Launch((blocks(packs_of(x), VEC_THREADS * each),), (VEC_THREADS,), (x, y, np.int64(x.size), np.int32(each)))


def called(x):
    if x.size <= AT_ONCE:
        return "gelu_scalar"
    return "gelu_full" if x.dtype.itemsize == 4 and packs_of(x) >= LARGE else "gelu_vec"


def composite(x):
    return x * 0.5 * (1.0 + (x / 1.4142135623730951).erf())


def native(x):
    from torch.nn.functional import gelu

    return gelu(x)


def backward(dy, x):
    from cudalab.kernels.gelu_backward import gelu_backward

    return gelu_backward(dy, x)


def cupy_composite(x):
    from cupyx.scipy.special import ndtr  # Phi, one array operation

    return (x * ndtr(x.astype("float32", copy=False))).astype(x.dtype, copy=False)


FITTED = "Phi(-|x|) is fitted in relative error, in a handful of float32 roundings, so the tail is as exact as the rest"
INSIDE = "float32 inside, one rounding at the end"
CANCELS = (
    "of the peers: 1 + erf(x / sqrt(2)) cancels in the negative tail: |x| / 2 times a few roundings of 1 in float32; "
    "on CPUs F.gelu takes an erf that is off by 5e-7"
)
ROUNDS = "each array operation rounds to the dtype, so 1 + erf(...) carries |x| / 2 roundings of 1 into the tail"

gelu = Kernel(
    file=__file__,
    summary="y = x * Phi(x), erf form, elementwise",
    dtypes=("float32", "float16", "bfloat16"),
    sizes={"small": (1, 3, 224, 224), "large": (32, 3, 224, 224), "xlarge": (1024, 3, 224, 224)},
    edges=((1,), (31,), (32,), (33,), (127,), (128,), (129,), (2**12 - 1,), (2**12 + 1,), (3, 5, 7), (0,)),
    reference=reference,
    entries={"gelu_scalar": scalar, "gelu_full": full, "gelu_vec": vec},
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
    elementwise="gelu(x)",
    triton="x * 0.5 * (1.0 + tl.math.erf(x * 0.7071067811865476))",
    numba="x * np.float32(0.5) * (np.float32(1) + math.erf(x * np.float32(0.7071067811865476)))",
)
