"""Gradient of the softmax of each row in Triton.

A program holds whole rows in registers, several short ones at a time. A row of more than HELD columns is read twice:
for the sum and for the result.
"""

import triton
import triton.language as tl

from cudalab.backends._triton import held_rows, tuned

HELD = 2**14  # columns


@held_rows
@triton.jit
def held(y_ptr, dy_ptr, dx_ptr, rows, cols, COLS: tl.constexpr, ROWS: tl.constexpr, HINT: tl.constexpr):
    col = tl.arange(0, COLS)[None, :]
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = (row < rows) & (col < cols)
    at = row.to(tl.int64) * cols + col
    y = tl.load(y_ptr + at, inside, other=0.0, eviction_policy=HINT).to(tl.float32)
    dy = tl.load(dy_ptr + at, inside, other=0.0, eviction_policy=HINT).to(tl.float32)
    tl.store(dx_ptr + at, y * (dy - tl.sum(y * dy, axis=1, keep_dims=True)), inside)


@tuned(
    [triton.Config({"BLOCK": block}, num_warps=warps) for block in (2048, 4096, 8192) for warps in (4, 8, 16, 32)],
    key=["cols"],
    fits=lambda values: 8 <= values["BLOCK"] // (32 * values["num_warps"]) <= 32,
)
@triton.jit
def read_again(y_ptr, dy_ptr, dx_ptr, cols, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    lane = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, cols, BLOCK):
        at = first + lane
        y = tl.load(y_ptr + start + at, at < cols, other=0.0, eviction_policy="evict_last").to(tl.float32)
        dy = tl.load(dy_ptr + start + at, at < cols, other=0.0, eviction_policy="evict_last").to(tl.float32)
        total += y * dy
    sum = tl.sum(total, axis=0)
    for first in range(0, cols, BLOCK):
        at = first + lane
        y = tl.load(y_ptr + start + at, at < cols, other=0.0, eviction_policy="evict_first").to(tl.float32)
        dy = tl.load(dy_ptr + start + at, at < cols, other=0.0, eviction_policy="evict_first").to(tl.float32)
        tl.store(dx_ptr + start + at, y * (dy - sum), at < cols)


def launch(y, dy, dx):
    rows, cols = y.shape
    if cols > HELD:
        read_again[(rows,)](y, dy, dx, cols)
        return
    held[lambda values: (triton.cdiv(rows, values["ROWS"]),)](y, dy, dx, rows, cols, COLS=triton.next_power_of_2(cols))
