"""Bias and GELU of a matrix in Triton: a program covers a tile, with the tile's part of the bias in registers."""

import triton
import triton.language as tl

from cudalab.backends._triton import tuned


@tuned(
    [
        triton.Config({"ROWS": rows, "COLS": cols, "HINT": hint}, num_warps=warps)
        for rows, cols, warps in (
            (1, 1024, 4), (2, 512, 4), (4, 256, 4), (8, 128, 4), (4, 512, 4), (4, 512, 8), (8, 256, 4), (8, 256, 8),
            (2, 1024, 8), (4, 1024, 8), (1, 2048, 8),
        )
        for hint in ("", "evict_last", "evict_first")
    ],
    key=["rows", "cols"],
    fits=lambda values: not values["HINT"] or values["ROWS"] * values["COLS"] == 2048,
)  # fmt: skip
@triton.jit
def tile(x_ptr, bias_ptr, y_ptr, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr, HINT: tl.constexpr):
    tiles = tl.cdiv(cols, COLS)  # in a row of tiles
    program = tl.program_id(0)
    r = (program // tiles * ROWS + tl.arange(0, ROWS))[:, None]
    c = (program % tiles * COLS + tl.arange(0, COLS))[None, :]
    inside = (r < rows) & (c < cols)
    at = r.to(tl.int64) * cols + c
    bias = tl.load(bias_ptr + c, c < cols, other=0.0).to(tl.float32)
    z = tl.load(x_ptr + at, inside, eviction_policy=HINT).to(tl.float32) + bias
    tl.store(y_ptr + at, z * 0.5 * (1.0 + tl.math.erf(z * 0.7071067811865476)), inside)


def launch(x, bias, y):
    rows, cols = x.shape
    tile[lambda values: (triton.cdiv(rows, values["ROWS"]) * triton.cdiv(cols, values["COLS"]),)](
        x, bias, y, rows, cols
    )
