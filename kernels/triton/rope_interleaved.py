"""Rotary position embedding in Triton, interleaved: a program has some heads of a token and its tables.

Of heads of more than 2 MOST elements it has a part: a compiler takes minutes for thousands of elements a thread.
"""

import triton
import triton.language as tl

from cudalab.backends._triton import tuned

MOST = 2048  # pairs of a head


@tuned(
    [
        triton.Config({"SOME": some, "HINT": hint}, num_warps=warps)
        for some in (4, 8, 16, 32)
        for warps in (1, 2, 4, 8)
        for hint in ("", "evict_last")
    ],
    key=["heads", "half", "tokens"],
    fits=lambda values: 4 <= values["SOME"] * values["HALF"] // (32 * values["num_warps"]) <= 32,
)
@triton.jit
def turn(
    x_ptr, cos_ptr, sin_ptr, y_ptr, tokens, heads, half,
    HALF: tl.constexpr, PARTS: tl.constexpr, SOME: tl.constexpr, HINT: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    pair = tl.arange(0, HALF)[None, :]
    at = tl.arange(0, 2 * HALF)[None, :]
    if PARTS > 1:
        pair += tl.program_id(2) * HALF
        at += tl.program_id(2) * 2 * HALF
    head = tl.program_id(1) * SOME + tl.arange(0, SOME)[:, None]
    cos = tl.load(cos_ptr + token * half + pair, pair < half).to(tl.float32)
    sin = tl.load(sin_ptr + token * half + pair, pair < half).to(tl.float32)
    places = (token * heads + head) * 2 * half + at
    inside = (head < heads) & (at < 2 * half)
    x = tl.load(x_ptr + places, inside, eviction_policy=HINT).to(tl.float32)
    a, b = tl.split(tl.reshape(x, (SOME, HALF, 2)))
    turned = tl.join(a * cos - b * sin, b * cos + a * sin)
    tl.store(y_ptr + places, tl.reshape(turned, (SOME, 2 * HALF)), inside)


def launch(x, cos, sin, y):
    tokens, heads, half = x.shape[0], x.shape[1], cos.shape[1]
    part = min(triton.next_power_of_2(half), MOST)
    parts = triton.cdiv(half, part)
    turn[lambda values: (tokens, triton.cdiv(heads, values["SOME"]), parts)](
        x, cos, sin, y, tokens, heads, half, HALF=part, PARTS=parts
    )
