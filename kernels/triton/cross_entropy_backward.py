"""Gradient of the cross-entropy of each row in Triton, in place: a program covers a part of a row, or of several."""

import triton
import triton.language as tl

from cudalab.backends._triton import tuned


@tuned(
    [
        triton.Config({"ROWS": rows, "COLS": cols, "HINT": hint}, num_warps=warps)
        for rows, cols, warps in (
            (1, 1024, 4), (1, 2048, 4), (1, 2048, 8), (1, 4096, 8), (1, 4096, 16), (1, 8192, 16), (2, 512, 4),
            (4, 256, 4), (8, 128, 4), (8, 256, 8), (16, 128, 8),
        )
        for hint in ("", "evict_last")
    ],
    key=["rows", "cols"],
)  # fmt: skip
@triton.jit
def part(
    x_ptr, lse_ptr, targets_ptr, dloss_ptr, rows, cols, ignore_index,
    ROWS: tl.constexpr, COLS: tl.constexpr, HINT: tl.constexpr,
):  # fmt: skip
    parts = tl.cdiv(cols, COLS)  # of a row
    program = tl.program_id(0)
    row = program // parts * ROWS + tl.arange(0, ROWS)
    col = (program % parts * COLS + tl.arange(0, COLS))[None, :]
    inside = (row[:, None] < rows) & (col < cols)
    at = row[:, None].to(tl.int64) * cols + col
    x = tl.load(x_ptr + at, inside, other=0.0, eviction_policy=HINT).to(tl.float32)
    target = tl.load(targets_ptr + row, row < rows, other=0)
    lse = tl.load(lse_ptr + row, row < rows, other=0.0)
    scale = tl.where(target == ignore_index, 0.0, tl.load(dloss_ptr + row, row < rows, other=0.0))
    gradient = tl.exp(x - lse[:, None]) - tl.where(col == target[:, None], 1.0, 0.0)
    tl.store(x_ptr + at, gradient * scale[:, None], inside)


def launch(logits, lse, targets, dloss, ignore_index):
    rows, cols = logits.shape
    part[lambda values: (triton.cdiv(rows, values["ROWS"]) * triton.cdiv(cols, values["COLS"]),)](
        logits, lse, targets, dloss, rows, cols, ignore_index
    )
