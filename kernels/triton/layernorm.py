"""Layer normalisation of each row in Triton, after the tutorial of that name.

A program holds whole rows in registers, several short ones at a time. A row of more than HELD columns is read three
times, as in the tutorial: for the mean, for the variance and for the result.
"""

import triton
import triton.language as tl

from cudalab.backends._triton import held_rows, tuned

HELD = 2**15  # columns
EPS = 1e-5  # as in layernorm.py


@held_rows
@triton.jit
def held(
    x_ptr, gamma_ptr, beta_ptr, y_ptr, rows, cols, eps, COLS: tl.constexpr, ROWS: tl.constexpr, HINT: tl.constexpr
):
    col = tl.arange(0, COLS)[None, :]
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = (row < rows) & (col < cols)
    at = row.to(tl.int64) * cols + col
    x = tl.load(x_ptr + at, inside, other=0.0, eviction_policy=HINT).to(tl.float32)
    mean = tl.sum(x, axis=1, keep_dims=True) / cols
    d = tl.where(inside, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(d * d, axis=1, keep_dims=True) / cols + eps)
    gamma = tl.load(gamma_ptr + col, col < cols, other=0.0).to(tl.float32)
    beta = tl.load(beta_ptr + col, col < cols, other=0.0).to(tl.float32)
    tl.store(y_ptr + at, d * scale * gamma + beta, inside)


@tuned(
    [triton.Config({"BLOCK": block}, num_warps=warps) for block in (2048, 4096, 8192) for warps in (4, 8, 16, 32)],
    key=["cols"],
    fits=lambda values: 8 <= values["BLOCK"] // (32 * values["num_warps"]) <= 32,
)
@triton.jit
def read_again(x_ptr, gamma_ptr, beta_ptr, y_ptr, cols, eps, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    lane = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, cols, BLOCK):
        at = first + lane
        total += tl.load(x_ptr + start + at, at < cols, other=0.0, eviction_policy="evict_last").to(tl.float32)
    mean = tl.sum(total, axis=0) / cols
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, cols, BLOCK):
        at = first + lane
        x = tl.load(x_ptr + start + at, at < cols, other=0.0, eviction_policy="evict_last").to(tl.float32)
        d = tl.where(at < cols, x - mean, 0.0)
        total += d * d
    scale = tl.rsqrt(tl.sum(total, axis=0) / cols + eps)
    for first in range(0, cols, BLOCK):
        at = first + lane
        x = tl.load(x_ptr + start + at, at < cols, other=0.0, eviction_policy="evict_first").to(tl.float32)
        gamma = tl.load(gamma_ptr + at, at < cols, other=0.0).to(tl.float32)
        beta = tl.load(beta_ptr + at, at < cols, other=0.0).to(tl.float32)
        tl.store(y_ptr + start + at, (x - mean) * scale * gamma + beta, at < cols)


def launch(x, gamma, beta, y):
    rows, cols = x.shape
    if cols > HELD:
        read_again[(rows,)](x, gamma, beta, y, cols, EPS)
        return
    held[lambda values: (triton.cdiv(rows, values["ROWS"]),)](
        x, gamma, beta, y, rows, cols, EPS, COLS=triton.next_power_of_2(cols)
    )
