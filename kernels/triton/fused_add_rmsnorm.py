"""A sum of two matrices and the root mean square norm of each row of it in Triton.

A program holds whole rows in registers, several short ones at a time.
"""

import triton
import triton.language as tl

from cudalab.backends._triton import held_rows


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


def launch(x, residual, weight, sum, y, eps):
    rows, cols = x.shape
    held[lambda values: (triton.cdiv(rows, values["ROWS"]),)](
        x, residual, weight, sum, y, rows, cols, eps, COLS=triton.next_power_of_2(cols)
    )
