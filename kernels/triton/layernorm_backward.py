"""Gradients of layer normalisation of each row in Triton, after the tutorial of that name.

A program holds whole rows in registers, several short ones at a time, and the sums of its rows for each column; a
second kernel adds what the programs have. Their table belongs to this module: two launches must not run at the same
time.
"""

from functools import cache

import torch
import triton
import triton.language as tl

from cudalab.backends._triton import held_rows, multiprocessors

EACH = 4  # programs of a multiprocessor
EPS = 1e-5  # as in layernorm.py


@held_rows
@triton.jit
def of_rows(
    dy_ptr, x_ptr, gamma_ptr, dx_ptr, sums_ptr, rows, cols, each, eps,
    COLS: tl.constexpr, ROWS: tl.constexpr, HINT: tl.constexpr,
):  # fmt: skip
    col = tl.arange(0, COLS)[None, :]
    gamma = tl.load(gamma_ptr + col, col < cols, other=0.0).to(tl.float32)
    gammas, betas = tl.zeros([ROWS, COLS], tl.float32), tl.zeros([ROWS, COLS], tl.float32)
    begin = tl.program_id(0) * each
    end = min(begin + each, rows)
    for first in range(0, each, ROWS):
        row = begin + first + tl.arange(0, ROWS)[:, None]
        inside = (row < end) & (col < cols)
        at = row.to(tl.int64) * cols + col
        x = tl.load(x_ptr + at, inside, other=0.0, eviction_policy=HINT).to(tl.float32)
        dy = tl.load(dy_ptr + at, inside, other=0.0, eviction_policy=HINT).to(tl.float32)
        g = dy * gamma
        d = tl.where(inside, x - tl.sum(x, axis=1, keep_dims=True) / cols, 0.0)
        scale = tl.rsqrt(tl.sum(d * d, axis=1, keep_dims=True) / cols + eps)
        mean = tl.sum(g, axis=1, keep_dims=True) / cols
        product = tl.sum(g * d, axis=1, keep_dims=True) / cols
        tl.store(dx_ptr + at, scale * (g - mean - d * scale * scale * product), inside)
        gammas += dy * d * scale
        betas += dy
    own = sums_ptr + tl.program_id(0).to(tl.int64) * cols + col
    tl.store(own, tl.sum(gammas, axis=0, keep_dims=True), col < cols)
    own += tl.num_programs(0).to(tl.int64) * cols
    tl.store(own, tl.sum(betas, axis=0, keep_dims=True), col < cols)


@triton.jit
def of_columns(sums_ptr, result_ptr, programs, cols, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    col = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    total = tl.zeros([ROWS, BLOCK], tl.float32)
    for first in range(0, programs, ROWS):
        row = first + tl.arange(0, ROWS)[:, None]
        at = row.to(tl.int64) * cols + col
        total += tl.load(sums_ptr + at, (row < programs) & (col < cols), other=0.0)
    tl.store(result_ptr + col, tl.sum(total, axis=0, keep_dims=True), col < cols)


@cache
def table(device, programs, cols):
    return torch.empty(2, programs, cols, device=device)


def launch(dy, x, gamma, dx, dgamma, dbeta):
    rows, cols = x.shape
    programs = max(min(rows, EACH * multiprocessors(x.device)), 1)
    each = triton.cdiv(rows, programs)
    sums = table(x.device, programs, cols)
    of_rows[(programs,)](dy, x, gamma, dx, sums, rows, cols, each, EPS, COLS=triton.next_power_of_2(cols))
    for part, result in zip(sums, (dgamma, dbeta), strict=True):
        of_columns[(triton.cdiv(cols, 64),)](part, result, programs, cols, BLOCK=64, ROWS=32)
