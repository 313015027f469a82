"""SwiGLU, elementwise: the activation of the feed-forward layers of Llama and its kin."""

import numpy as np

from cudalab import Budget, Kernel, Launch, blocks
from cudalab.kernels._h200 import AT_ONCE, even_threads


def reference(gate, up):
    """With exp in float64: float32 has no silu(gate) of tiny and far negative gates, which a large `up` brings back."""
    return gate / (1 + np.exp(-gate, dtype=np.float64)) * up


def scalar(gate, up, y):
    threads = even_threads(gate.size)
    return Launch((blocks(gate.size, threads),), (threads,), (gate, up, y, np.int64(gate.size)))


def vec(gate, up, y, VEC_THREADS):
    packs = blocks(gate.size, 16 // gate.dtype.itemsize)
    return Launch((blocks(packs, VEC_THREADS),), (VEC_THREADS,), (gate, up, y, np.int64(gate.size)))


def called(gate, up):
    return "swiglu_scalar" if gate.size <= AT_ONCE else "swiglu_vec"


def backward(dy, gate, up):
    """With PyTorch's kernels: the lab has none of its own yet."""
    import torch
    from torch.nn.functional import silu

    return torch.ops.aten.silu_backward(dy * up, gate), dy * silu(gate)


def composite(gate, up):
    return gate * gate.sigmoid() * up


def native(gate, up):
    from torch.nn.functional import silu

    return silu(gate) * up


def cupy_composite(gate, up):
    import cupy

    return gate / (1 + cupy.exp(-gate)) * up


EXPONENTIAL = "exp2f is up to 2 ULP off on a GPU; then the sum, the reciprocal and three products"
INSIDE = "float32 inside, one rounding at the end"
TAIL = "of the peers: silu(gate) is subnormal or 0 below -87, whatever `up` is"
TWICE = "of F.silu(gate) * up, two kernels: silu(gate) is rounded to the dtype"
ROUNDS = "each array operation rounds to the dtype: the sigmoid and two products"

swiglu = Kernel(
    file=__file__,
    summary="y = silu(gate) * up, silu(g) = g / (1 + exp(-g)), elementwise",
    dtypes=("float32", "float16", "bfloat16"),
    sizes={"small": (128, 1024), "large": (4096, 14336), "xlarge": (8192, 28672)},
    edges=((1,), (31,), (32,), (33,), (127,), (128,), (129,), (2**12 - 1,), (2**12 + 1,), (3, 5, 7), (0,)),
    reference=reference,
    entries={"swiglu_scalar": scalar, "swiglu_vec": vec},
    called=called,
    budgets={
        "float32": Budget(6, why=EXPONENTIAL),
        "float16": Budget(1, why=INSIDE),
        "bfloat16": Budget(1, why=INSIDE),
    },
    peers={
        "float32": Budget(8, 1e-36, TAIL),
        "float16": Budget(2, 1e-7, TWICE),
        "bfloat16": Budget(2, 1e-36, TWICE),
    },
    composed={"float16": Budget(4, 1e-7, ROUNDS), "bfloat16": Budget(4, 1e-36, ROUNDS)},
    pointwise=True,
    tunables={"VEC_THREADS": (128, 64, 256, 512)},
    torch=composite,
    torch_native=native,
    backward=backward,
    cupy=cupy_composite,
    elementwise="swiglu(gate, up)",
    triton="gate / (1.0 + tl.exp(-gate)) * up",
)
