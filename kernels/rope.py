"""Rotary position embedding, element i of a head with half + i: Llama in Hugging Face's form, Mistral, Qwen, NeoX."""

import numpy as np

from cudalab import Kernel
from cudalab.kernels._rope import EDGES, SHAPES, SIZES, budgets, in_packs, plain, table_gradients, tables


def reference(x, cos, sin):
    cos, sin = cos[:, None], sin[:, None]
    a, b = np.split(x, 2, axis=2)
    return np.concatenate((a * cos - b * sin, b * cos + a * sin), axis=2)


def backward(dy, cos, sin):
    return rope(dy, cos, -sin), *table_gradients(cos, sin)


def composite(x, cos, sin):
    half = cos.shape[1]
    c, s = cos[:, None], sin[:, None]
    a, b = x[..., :half], x[..., half:]
    y = x.new_empty(x.shape)
    y[..., :half] = a * c - b * s
    y[..., half:] = b * c + a * s
    return y


rope = Kernel(
    file=__file__,
    summary="rotary position embedding: each pair of elements i and half + i of a head, turned by an angle",
    dtypes=("float32", "float16", "bfloat16"),
    sizes=SIZES,
    edges=EDGES,
    entries={"rope_plain": plain, "rope_vec": in_packs},
    **budgets(reference),
    inputs=tables,
    shapes=SHAPES,
    independent="tokens",
    tunables={"VEC_THREADS": (512, 128, 256, 1024)},
    backward=backward,
    torch=composite,
    triton="triton/rope.py",
)
