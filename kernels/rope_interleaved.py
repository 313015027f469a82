"""Rotary position embedding, element 2 i of a head with 2 i + 1: the first paper, GPT-J, Llama in Meta's form."""

import numpy as np

from cudalab import Kernel
from cudalab.kernels._rope import EDGES, SHAPES, SIZES, budgets, in_packs, plain, table_gradients, tables


def reference(x, cos, sin):
    cos, sin = cos[:, None], sin[:, None]
    a, b = x[..., ::2], x[..., 1::2]
    return np.stack((a * cos - b * sin, b * cos + a * sin), axis=3).reshape(x.shape)


def backward(dy, cos, sin):
    return rope_interleaved(dy, cos, -sin), *table_gradients(cos, sin)


def composite(x, cos, sin):
    c, s = cos[:, None], sin[:, None]
    a, b = x[..., ::2], x[..., 1::2]
    y = x.new_empty(x.shape)
    y[..., ::2] = a * c - b * s
    y[..., 1::2] = b * c + a * s
    return y


rope_interleaved = Kernel(
    file=__file__,
    summary="rotary position embedding: each pair of elements 2 i and 2 i + 1 of a head, turned by an angle",
    dtypes=("float32", "float16", "bfloat16"),
    sizes=SIZES,
    edges=EDGES,
    entries={"rope_interleaved_plain": plain, "rope_interleaved_vec": in_packs},
    **budgets(reference),
    inputs=tables,
    shapes=SHAPES,
    independent="tokens",
    tunables={"VEC_THREADS": (512, 128, 256, 1024)},
    backward=backward,
    torch=composite,
    triton="triton/rope_interleaved.py",
)
