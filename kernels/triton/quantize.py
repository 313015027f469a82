"""Each row in int8 or fp8 (e4m3) with a scale of its own in Triton.

A program holds whole rows in registers, several short ones at a time. A row of more than HELD columns is read twice:
for the maximum and for the result.
"""

import torch
import triton
import triton.language as tl

from cudalab.backends._triton import held_rows, tuned

HELD = 2**15  # columns


@triton.jit
def rounded(x, LARGEST: tl.constexpr, INTEGER: tl.constexpr):
    """Of int8 the nearest integer, halves to even: adding 1.5 * 2^23 rounds to a whole number."""
    if INTEGER:
        q = ((x + 12582912.0) - 12582912.0).to(tl.int8)
    else:
        q = tl.minimum(tl.maximum(x, -LARGEST), LARGEST).to(tl.float8e4nv)
    return q


@held_rows
@triton.jit
def held(
    x_ptr, scale_ptr, q_ptr, rows, cols, LARGEST: tl.constexpr, LEAST: tl.constexpr, INTEGER: tl.constexpr,
    COLS: tl.constexpr, ROWS: tl.constexpr, HINT: tl.constexpr,
):  # fmt: skip
    col = tl.arange(0, COLS)[None, :]
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = (row[:, None] < rows) & (col < cols)
    at = row[:, None].to(tl.int64) * cols + col
    x = tl.load(x_ptr + at, inside, other=0.0, eviction_policy=HINT).to(tl.float32)
    scale = tl.maximum(tl.div_rn(tl.max(tl.abs(x), axis=1), LARGEST), LEAST)
    tl.store(scale_ptr + row, scale, row < rows)
    tl.store(q_ptr + at, rounded(tl.div_rn(x, scale[:, None]), LARGEST, INTEGER), inside)


@tuned(
    [triton.Config({"BLOCK": block}, num_warps=warps) for block in (2048, 4096, 8192) for warps in (4, 8, 16, 32)],
    key=["cols"],
    fits=lambda values: 8 <= values["BLOCK"] // (32 * values["num_warps"]) <= 32,
)
@triton.jit
def read_again(
    x_ptr, scale_ptr, q_ptr, cols, LARGEST: tl.constexpr, LEAST: tl.constexpr, INTEGER: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    start = tl.program_id(0).to(tl.int64) * cols
    lane = tl.arange(0, BLOCK)
    tops = tl.zeros([BLOCK], tl.float32)
    for first in range(0, cols, BLOCK):
        at = first + lane
        x = tl.load(x_ptr + start + at, at < cols, other=0.0, eviction_policy="evict_last").to(tl.float32)
        tops = tl.maximum(tops, tl.abs(x))
    scale = tl.maximum(tl.div_rn(tl.max(tops, axis=0), LARGEST), LEAST)
    tl.store(scale_ptr + tl.program_id(0), scale)
    for first in range(0, cols, BLOCK):
        at = first + lane
        x = tl.load(x_ptr + start + at, at < cols, other=0.0, eviction_policy="evict_first").to(tl.float32)
        tl.store(q_ptr + start + at, rounded(tl.div_rn(x, scale), LARGEST, INTEGER), at < cols)


def launch(x, scale, q):
    rows, cols = x.shape
    integer = q.dtype == torch.int8
    constants = {"LARGEST": 127.0 if integer else 448.0, "LEAST": 2.0**-100, "INTEGER": integer}
    if cols > HELD:
        read_again[(rows,)](x, scale, q, cols, **constants)
        return
    held[lambda values: (triton.cdiv(rows, values["ROWS"]),)](
        x, scale, q, rows, cols, **constants, COLS=triton.next_power_of_2(cols)
    )
