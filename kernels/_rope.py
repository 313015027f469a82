"""What the specs of rotary position embeddings share: `common/rope.cuh`. A size is (tokens, heads, half a head)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cudalab import Budget, InputError, Launch, blocks, counted, deep_grid, draw
from cudalab.kernels._h200 import MULTIPROCESSORS

THREADS = 256  # of a block of the plain entries
FEW = 128  # threads of a block where they are fewer than FULL
FULL = 2048 * MULTIPROCESSORS  # threads that an H200 has at once
DEEPEST = 64  # threads of a block in z, at most

SHAPES = {"x": "tokens heads 2*half", "cos": "tokens half", "sin": "tokens half"}
SIZES = {
    "tiny": (1, 32, 64),  # a token that is generated
    "small": (128, 32, 64),
    "odd": (2047, 32, 40),  # heads of 80 elements, as phi-2 has
    "keys": (32768, 8, 64),  # the heads of keys in Llama 3
    "large": (8192, 32, 64),
    "xlarge": (32768, 32, 64),
}
EDGES = (  # the long ones: more heads or packs than a block of the launch, or than any block, has threads for
    (1, 1, 1), (5, 3, 1), (3, 2, 3), (2, 5, 8), (7, 4, 16), (3, 9, 20), (2, 33, 24), (4, 1, 64), (3, 130, 4),
    (2, 3, 301), (1, 6, 1032), (1, 2, 8200), (0, 2, 8),
)  # fmt: skip


def tables(shape: tuple[int, ...], dtype: Any, rng: Any) -> dict[str, Any]:
    """Normal x, and tables of angles that differ in all places: a wrong row or column of them shows."""
    tokens, heads, half = shape
    angle = rng.uniform(-np.pi, np.pi, (tokens, half))
    return {
        "x": draw((tokens, heads, 2 * half), dtype, rng),
        "cos": np.cos(angle).astype(dtype),
        "sin": np.sin(angle).astype(dtype),
    }


def plain(x: Any, cos: Any, sin: Any, y: Any) -> Launch:
    return Launch((x.shape[0],), (THREADS,), (x, cos, sin, y, *lengths(x)))


def in_packs(x: Any, cos: Any, sin: Any, y: Any, VEC_THREADS: int) -> Launch:
    """A thread for two packs of 16 bytes, one of each half of a head.

    Blocks are small where an H200 has room for more threads than there are: all its multiprocessors get some.
    """
    tokens, heads, half = x.shape[0], x.shape[1], x.shape[2] // 2
    lanes = min(max(blocks(half, 16 // x.dtype.itemsize), 1), 1024)
    threads = VEC_THREADS if tokens * heads * lanes >= FULL else min(VEC_THREADS, FEW)
    turns = max(blocks(heads, max(threads // lanes, 1)), 1)  # blocks that share the heads of a token
    down = max(blocks(heads, turns), 1)
    deep = max(min(threads // (lanes * down), DEEPEST, blocks(tokens, MULTIPROCESSORS)), 1)
    args = (x, cos, sin, y, counted(tokens, np.int32), *lengths(x))
    return Launch(deep_grid(blocks(tokens, deep), turns), (lanes, down, deep), args)


def lengths(x: Any) -> tuple[Any, Any]:
    return counted(x.shape[1], np.int32), counted(x.shape[2] // 2, np.int32)


def budgets(reference: Callable[..., Any]) -> dict[str, Any]:
    """The fields of a spec that say what is right, for the reference of a layout."""

    def roundings(unit: float, least: float = 0.0) -> Callable[..., Any]:
        """`unit` of both products that an element is the sum of, and `least`."""

        def allowed(x: Any, cos: Any, sin: Any) -> Any:
            x, cos, sin = np.abs(x), np.abs(cos), np.abs(sin)
            return unit * np.maximum(reference(x, cos, sin), reference(x, cos, -sin)) + least

        return allowed

    each = {
        "float16": Budget(1, roundings(2**-11, 2**-24), "each product is rounded to the dtype, and they may cancel"),
        "bfloat16": Budget(1, roundings(2**-8), "each product is rounded to the dtype, and they may cancel"),
    }
    return {
        "reference": reference,
        "budgets": {
            "float32": Budget(1, roundings(2**-24), "a product is rounded, and the other may cancel it"),
            "float16": Budget(0.5, why="the products are exact in float32, so only their sum is rounded"),
            "bfloat16": Budget(0.5, why="the products are exact in float32, so only their sum is rounded"),
        },
        "peers": each,
        "composed": each,
    }


def table_gradients(cos: Any, sin: Any) -> tuple[None, None]:
    """None: the gradients of the tables need x, which would have to be kept until the backward pass for them."""
    if cos.requires_grad or sin.requires_grad:
        raise InputError("rope has no gradient of its tables; pass cos.detach() and sin.detach()")
    return None, None
