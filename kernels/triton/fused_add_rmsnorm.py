"""A sum of two matrices and the root mean square norm of each row of it in Triton.

A program holds whole rows in registers, several short ones at a time. Of a row of more than HELD columns the sums are
written and read again.
"""

import triton
import triton.language as tl

from cudalab.backends._triton import held_rows, tuned

HELD = 2**14  # columns


@held_rows
@triton.jit
def held(
    x_ptr, residual_ptr, weight_ptr, sum_ptr, y_ptr, rows, cols, eps,
    COLS: tl.constexpr, ROWS: tl.constexpr, HINT: tl.constexpr,
):  # fmt: skip
    col = tl.arange(0, COLS)[None, :]
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = (row < rows) & (col < cols)
    at = row.to(tl.int64) * cols + col
    x = tl.load(x_ptr + at, inside, other=0.0, eviction_policy=HINT).to(tl.float32)
    residual = tl.load(residual_ptr + at, inside, other=0.0, eviction_policy=HINT).to(tl.float32)
    rounded = (x + residual).to(sum_ptr.dtype.element_ty)
    tl.store(sum_ptr + at, rounded, inside)
    v = rounded.to(tl.float32)
    scale = tl.rsqrt(tl.sum(v * v, axis=1, keep_dims=True) / cols + eps)
    weight = tl.load(weight_ptr + col, col < cols, other=0.0).to(tl.float32)
    tl.store(y_ptr + at, v * scale * weight, inside)


@tuned(
    [triton.Config({"BLOCK": block}, num_warps=warps) for block in (2048, 4096, 8192) for warps in (4, 8, 16, 32)],
    key=["cols"],
    fits=lambda values: 8 <= values["BLOCK"] // (32 * values["num_warps"]) <= 32,
)
@triton.jit
def read_again(x_ptr, residual_ptr, weight_ptr, sum_ptr, y_ptr, cols, eps, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    lane = tl.arange(0, BLOCK)
    squares = tl.zeros([BLOCK], tl.float32)
    for first in range(0, cols, BLOCK):
        at = first + lane
        x = tl.load(x_ptr + start + at, at < cols, other=0.0, eviction_policy="evict_first").to(tl.float32)
        residual = tl.load(residual_ptr + start + at, at < cols, other=0.0, eviction_policy="evict_first")
        rounded = (x + residual.to(tl.float32)).to(sum_ptr.dtype.element_ty)
        tl.store(sum_ptr + start + at, rounded, at < cols)
        squares += rounded.to(tl.float32) * rounded.to(tl.float32)
    scale = tl.rsqrt(tl.sum(squares, axis=0) / cols + eps)
    tl.debug_barrier()  # the threads of a program read what others wrote
    for first in range(0, cols, BLOCK):
        at = first + lane
        v = tl.load(sum_ptr + start + at, at < cols, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + at, at < cols, other=0.0).to(tl.float32)
        tl.store(y_ptr + start + at, v * scale * weight, at < cols)


def launch(x, residual, weight, sum, y, eps):
    rows, cols = x.shape
    if cols > HELD:
        read_again[(rows,)](x, residual, weight, sum, y, cols, eps)
        return
    held[lambda values: (triton.cdiv(rows, values["ROWS"]),)](
        x, residual, weight, sum, y, rows, cols, eps, COLS=triton.next_power_of_2(cols)
    )
