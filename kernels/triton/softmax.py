"""Softmax of each row in Triton, after the tutorial on fused softmax.

A program holds whole rows in registers: several short ones at a time, or one, or one after the other if fewer programs
than rows run. A row of more than HELD columns is read twice: for its maximum and sum, and for the result.
"""

import triton
import triton.language as tl

from cudalab.backends._triton import multiprocessors, rows_fit, tuned

HELD = 2**15  # columns


@tuned(
    [
        triton.Config({"ROWS": rows, "HINT": hint, "STAGES": 1, "each": 0}, num_warps=warps)
        for rows in (1, 2, 4, 8, 16)
        for warps in (1, 2, 4, 8, 16, 32)
        for hint in ("", "evict_last")  # what L2 is told about the input
    ]
    + [  # the next row is on its way while one is computed
        triton.Config({"ROWS": 1, "HINT": "", "STAGES": stages, "each": 1024 // (32 * warps)}, num_warps=warps)
        for warps in (4, 8, 16)
        for stages in (2, 4)
    ],
    key=["rows", "cols"],
    fits=rows_fit,
)
@triton.jit
def held(
    x_ptr, y_ptr, rows, cols, each, COLS: tl.constexpr, ROWS: tl.constexpr, HINT: tl.constexpr, STAGES: tl.constexpr
):
    col = tl.arange(0, COLS)[None, :]
    for first in tl.range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS, num_stages=STAGES):
        row = first + tl.arange(0, ROWS)[:, None]
        inside = (row < rows) & (col < cols)
        at = row.to(tl.int64) * cols + col
        x = tl.load(x_ptr + at, inside, other=-float("inf"), eviction_policy=HINT).to(tl.float32)
        e = tl.exp(x - tl.max(x, axis=1, keep_dims=True))
        tl.store(y_ptr + at, e / tl.sum(e, axis=1, keep_dims=True), inside)


@tuned(
    [triton.Config({"BLOCK": block}, num_warps=warps) for block in (2048, 4096, 8192) for warps in (4, 8, 16, 32)],
    key=["cols"],
    fits=lambda values: 8 <= values["BLOCK"] // (32 * values["num_warps"]) <= 32,
)
@triton.jit
def read_twice(x_ptr, y_ptr, cols, BLOCK: tl.constexpr):
    """Each lane keeps its own maximum, and the sum of the exponentials relative to it."""
    start = tl.program_id(0).to(tl.int64) * cols
    lane = tl.arange(0, BLOCK)
    top = tl.full([BLOCK], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, cols, BLOCK):
        at = first + lane
        x = tl.load(x_ptr + start + at, at < cols, other=-float("inf"), eviction_policy="evict_last").to(tl.float32)
        higher = tl.maximum(top, x)
        base = tl.where(higher == -float("inf"), 0.0, higher)  # -inf - -inf is NaN
        total = total * tl.exp(top - base) + tl.exp(x - base)
        top = higher
    most = tl.max(top, axis=0)
    total = tl.sum(total * tl.exp(top - tl.where(most == -float("inf"), 0.0, most)), axis=0)
    for first in range(0, cols, BLOCK):
        at = first + lane
        x = tl.load(x_ptr + start + at, at < cols, eviction_policy="evict_first").to(tl.float32)
        tl.store(y_ptr + start + at, tl.exp(x - most) / total, at < cols)


def launch(x, y):
    rows, cols = x.shape
    if cols > HELD:
        read_twice[(rows,)](x, y, cols)
        return

    def grid(values):  # `each`: programs a multiprocessor, as many as fit at 64 registers a thread; 0: all
        blocks = triton.cdiv(rows, values["ROWS"])
        return (min(blocks, values["each"] * multiprocessors(x.device)) if values["each"] else blocks,)

    held[grid](x, y, rows, cols, COLS=triton.next_power_of_2(cols))
