"""Transpose of a matrix in Triton: a program transposes a tile, so that it reads and writes whole lines."""

import triton
import triton.language as tl

from cudalab.backends._triton import tuned

TILES = (  # rows, columns, warps
    (32, 32, 1), (32, 32, 4), (32, 64, 4), (64, 32, 4), (64, 64, 4), (64, 64, 8), (32, 128, 4), (128, 32, 4),
    (64, 128, 8), (128, 64, 8), (128, 128, 8), (128, 128, 16),
)  # fmt: skip


@tuned(
    [
        triton.Config({"DOWN": down, "ACROSS": across, "HINT": hint}, num_warps=warps)
        for hint in ("", "evict_last")
        for down, across, warps in TILES
    ],
    key=["rows", "cols"],
    fits=lambda values: not values["HINT"] or values["DOWN"] * values["ACROSS"] >= 64 * 64,
)
@triton.jit
def tile(x_ptr, y_ptr, rows, cols, DOWN: tl.constexpr, ACROSS: tl.constexpr, HINT: tl.constexpr):
    tiles = tl.cdiv(cols, ACROSS)  # in a row of tiles
    program = tl.program_id(0)
    r = (program // tiles) * DOWN + tl.arange(0, DOWN)
    c = (program % tiles) * ACROSS + tl.arange(0, ACROSS)
    x = tl.load(
        x_ptr + r.to(tl.int64)[:, None] * cols + c[None, :],
        (r < rows)[:, None] & (c < cols)[None, :],
        eviction_policy=HINT,
    )
    at = c.to(tl.int64)[:, None] * rows + r[None, :]
    tl.store(y_ptr + at, tl.trans(x), (c < cols)[:, None] & (r < rows)[None, :])


def launch(x, y):
    rows, cols = x.shape
    tile[lambda values: (triton.cdiv(rows, values["DOWN"]) * triton.cdiv(cols, values["ACROSS"]),)](x, y, rows, cols)
