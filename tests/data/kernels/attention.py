"""Attention with log-sum-exp: two outputs of two dtypes, 50 KB of shared memory, a scalar that follows from a shape."""

import numpy as np

from cudalab import Budget, Kernel, Launch, Out, Scalar, blocks

TILE, WARPS = 32, 4


def reference(q, k, v, scale):
    scores = scale * q @ k.swapaxes(1, 2)
    length = q.shape[1]
    scores[:, np.triu(np.ones((length, length), bool), 1)] = -np.inf
    highest = scores.max(axis=2, keepdims=True)
    p = np.exp(scores - highest)
    total = p.sum(axis=2, keepdims=True)
    return p @ v / total, (highest + np.log(total))[..., 0]


def launch(q, k, v, o, lse, scale):
    heads, length, width = q.shape
    shared = 4 * (3 * TILE * (width + 1) + WARPS * TILE)
    args = q, k, v, o, lse, np.int32(length), np.int32(width), scale
    return Launch(grid=(blocks(length, TILE), heads), block=(32, WARPS), args=args, shared=shared)


def eager(q, k, v, scale):
    import torch

    scores = scale * (q.float() @ k.float().transpose(1, 2))
    later = torch.ones_like(scores[0], dtype=torch.bool).triu(1)
    scores = scores.masked_fill(later, float("-inf"))
    return (scores.softmax(-1) @ v.float()).to(q.dtype), scores.logsumexp(-1)


attention = Kernel(
    file=__file__,
    summary="causal attention, and the log of each row's sum of exponentials",
    dtypes=("float32", "float16", "bfloat16"),
    sizes={"small": (2, 100, 128), "large": (32, 2048, 128)},
    edges=((1, 1, 1), (3, 33, 64), (1, 65, 100)),
    shapes={"q": "heads length width", "k": "heads length width", "v": "heads length width", "lse": "heads length"},
    reference=reference,
    outputs={"o": Out(), "lse": Out(dtype="float32", budgets=Budget(16, atol=1e-5, why="a log of a sum of expf"))},
    scalars={"scale": Scalar(lambda q: q.shape[-1] ** -0.5)},
    entries={"attention_forward": launch},
    budgets={
        "float32": Budget(32, atol=4e-6, why="values cancel"),
        "float16": Budget(1, atol=2e-6, why="float32 inside, one rounding at the end"),
        "bfloat16": Budget(1, atol=2e-6, why="float32 inside, one rounding at the end"),
    },
    flops=lambda q, k, v: 2 * q.shape[0] * q.shape[1] ** 2 * q.shape[2],
    torch=eager,
)
