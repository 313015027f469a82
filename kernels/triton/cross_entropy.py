"""Cross-entropy of each row, and its log-sum-exp, in Triton.

A program holds whole rows in registers, several short ones at a time. A row of more than HELD columns is read once too:
each lane keeps its own maximum, and the sum of the exponentials relative to it.
"""

import triton
import triton.language as tl

from cudalab.backends._triton import held_rows, tuned

HELD = 2**14  # columns


@triton.jit
def store_results(x_ptr, targets_ptr, loss_ptr, lse_ptr, row, rows, cols, ignore_index, top, total):
    target = tl.load(targets_ptr + row, row < rows, other=0)
    picked = tl.load(
        x_ptr + row.to(tl.int64) * cols + target, (row < rows) & (target >= 0) & (target < cols), other=0.0
    )
    log_sum = tl.log(total)
    loss = tl.where(target == ignore_index, 0.0, log_sum + (top - picked.to(tl.float32)))
    tl.store(loss_ptr + row, loss, row < rows)
    tl.store(lse_ptr + row, top + log_sum, row < rows)


@held_rows
@triton.jit
def held(
    x_ptr, targets_ptr, loss_ptr, lse_ptr, rows, cols, ignore_index,
    COLS: tl.constexpr, ROWS: tl.constexpr, HINT: tl.constexpr,
):  # fmt: skip
    col = tl.arange(0, COLS)[None, :]
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = (row[:, None] < rows) & (col < cols)
    at = row[:, None].to(tl.int64) * cols + col
    x = tl.load(x_ptr + at, inside, other=-float("inf"), eviction_policy=HINT).to(tl.float32)
    top = tl.max(x, axis=1)
    total = tl.sum(tl.exp(x - tl.where(top == -float("inf"), 0.0, top)[:, None]), axis=1)
    store_results(x_ptr, targets_ptr, loss_ptr, lse_ptr, row, rows, cols, ignore_index, top, total)


@tuned(
    [
        triton.Config({"BLOCK": block, "STAGES": stages}, num_warps=warps)
        for block in (2048, 4096, 8192)
        for warps in (4, 8, 16, 32)
        for stages in (1, 3)
    ],
    key=["cols"],
    fits=lambda values: 8 <= values["BLOCK"] // (32 * values["num_warps"]) <= 32,
)
@triton.jit
def streamed(
    x_ptr, targets_ptr, loss_ptr, lse_ptr, rows, cols, ignore_index, BLOCK: tl.constexpr, STAGES: tl.constexpr
):
    row = tl.program_id(0)
    start = row.to(tl.int64) * cols
    lane = tl.arange(0, BLOCK)
    tops = tl.full([BLOCK], -float("inf"), tl.float32)
    totals = tl.zeros([BLOCK], tl.float32)
    for first in tl.range(0, cols, BLOCK, num_stages=STAGES):
        at = first + lane
        x = tl.load(x_ptr + start + at, at < cols, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(tops, x)
        base = tl.where(higher == -float("inf"), 0.0, higher)  # -inf - -inf is NaN
        totals = totals * tl.exp(tops - base) + tl.exp(x - base)
        tops = higher
    top = tl.max(tops, axis=0)
    total = tl.sum(totals * tl.exp(tops - tl.where(top == -float("inf"), 0.0, top)), axis=0)
    store_results(x_ptr, targets_ptr, loss_ptr, lse_ptr, row, rows, cols, ignore_index, top, total)


def launch(logits, targets, loss, lse, ignore_index):
    rows, cols = logits.shape
    if cols > HELD:
        streamed[(rows,)](logits, targets, loss, lse, rows, cols, ignore_index)
        return
    held[lambda values: (triton.cdiv(rows, values["ROWS"]),)](
        logits, targets, loss, lse, rows, cols, ignore_index, COLS=triton.next_power_of_2(cols)
    )
