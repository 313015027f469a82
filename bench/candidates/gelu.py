"""GELU, exact (erf) form, elementwise, without erff: to be measured on a GPU before it takes the place of the lab's."""

import numpy as np

from cudalab.spec import Budget, Kernel, Launch, blocks

SCALAR_THREADS, VEC_THREADS = 256, 128  # as measured: bench/NOTES.md


def reference(x):
    from scipy.special import ndtr  # Phi, accurate in both tails

    return x * ndtr(x)


def scalar(x, y):
    return Launch((blocks(x.size, SCALAR_THREADS),), (SCALAR_THREADS,), (x, y, np.int64(x.size)))


def vec(x, y):
    packs = blocks(x.size, 16 // x.dtype.itemsize)
    return Launch((blocks(packs, VEC_THREADS),), (VEC_THREADS,), (x, y, np.int64(x.size)))


def composite(x):
    return x * 0.5 * (1.0 + (x / 1.4142135623730951).erf())


def native(x):
    from torch.nn.functional import gelu

    return gelu(x)


def cupy_composite(x):
    from cupyx.scipy.special import erf

    inner = (x / 1.4142135623730951).astype("float32", copy=False)  # CuPy's erf makes float64 of float16
    return (x * 0.5 * (1.0 + erf(inner))).astype(x.dtype, copy=False)


CANCELS = "of the peers: 1 + erf(x / sqrt(2)) cancels in the negative tail. Ours keeps 4 and 1 ULP without it"
ROUNDS = "each array operation rounds to the dtype, so 1 + erf(...) carries |x| / 2 roundings of 1 into the tail"

gelu = Kernel(
    file=__file__,
    summary="y = x * Phi(x), erf form, elementwise",
    dtypes=("float32", "float16", "bfloat16"),
    sizes={"small": (1, 3, 224, 224), "large": (32, 3, 224, 224), "xlarge": (1024, 3, 224, 224)},
    edges=((1,), (31,), (32,), (33,), (127,), (128,), (129,), (2**12 - 1,), (2**12 + 1,), (3, 5, 7), (0,)),
    reference=reference,
    entries={"gelu_scalar": scalar, "gelu_vec": vec},
    budgets={
        "float32": Budget(4, 1e-6, CANCELS),
        "float16": Budget(1, 1e-6, CANCELS),
        "bfloat16": Budget(1, 1e-6, CANCELS),
    },
    composed={"float16": Budget(4, 2e-3, ROUNDS), "bfloat16": Budget(4, 1.6e-2, ROUNDS)},
    pointwise=True,
    torch=composite,
    torch_native=native,
    cupy=cupy_composite,
    elementwise="gelu(x)",
    triton="x * 0.5 * (1.0 + tl.math.erf(x * 0.7071067811865476))",
)
