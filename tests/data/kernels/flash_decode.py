"""Attention of one query over a cache: two launches over a workspace that the kernel reads as float2."""

import numpy as np

from cudalab import Budget, Kernel, Launch, Scalar, Work, draw

SPLITS = 4


def inputs(shape, dtype, rng):
    heads, seq = shape
    return {
        "q": draw((heads, 64), dtype, rng), "k": draw((heads, seq, 64), dtype, rng),
        "v": draw((heads, seq, 64), dtype, rng),
    }  # fmt: skip


def reference(q, k, v, scale):
    scores = np.einsum("hd,hsd->hs", q, k) * scale
    p = np.exp(scores - scores.max(1, keepdims=True))
    return np.einsum("hs,hsd->hd", p / p.sum(1, keepdims=True), v)


def launches(q, k, v, out, partial, ml, scale):
    heads, seq, _ = k.shape
    length = np.int32(-(-seq // SPLITS))
    return (
        Launch(
            (SPLITS, heads), (64,), (q, k, v, partial, ml, np.int32(seq), length, scale), entry="flash_decode_split"
        ),
        Launch((heads,), (64,), (partial, ml, out, np.int32(SPLITS)), entry="flash_decode_combine"),
    )


flash_decode = Kernel(
    file=__file__,
    summary="attention of one token, split over the sequence",
    dtypes=("float16",),
    sizes={"small": (3, 300), "large": (32, 8192)},
    edges=((1, 4), (2, 65), (1, 257)),
    shapes={"q": "h 64", "k": "h s 64", "v": "h s 64", "out": "h 64", "partial": "h 4 64", "ml": "h 4 2"},
    inputs=inputs,
    reference=reference,
    output="out",
    workspace={"partial": Work("float32"), "ml": Work("float32")},
    scalars={"scale": Scalar(0.125)},
    entries={"flash_decode": launches},
    aligned={"k": 4},
    budgets=Budget(2, atol=1e-3, why="float32 inside; sums cancel"),
)
