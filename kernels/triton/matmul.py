"""Product of two matrices in Triton, after the tutorial on matrix multiplication: programs in groups, for L2.

`input_precision="ieee"` multiplies in float32, as the `.cu` does. Triton's default rounds the factors to TF32.
"""

import triton
import triton.language as tl

from cudalab.backends._triton import tuned

TILES = (  # rows, columns, depth, warps, stages
    (64, 64, 16, 4, 3), (32, 32, 32, 2, 3), (32, 64, 16, 4, 3), (64, 32, 16, 4, 3), (64, 64, 32, 4, 3),
    (128, 64, 16, 4, 3), (64, 128, 16, 4, 3), (128, 128, 16, 8, 2), (128, 128, 16, 8, 4), (128, 64, 16, 8, 3),
)  # fmt: skip


@tuned(
    [
        triton.Config({"M": m, "N": n, "K": k, "GROUP": 8}, num_warps=warps, num_stages=stages)
        for m, n, k, warps, stages in TILES
    ],
    key=["rows", "cols", "depth"],
)
@triton.jit
def grouped(
    a_ptr, b_ptr, y_ptr, rows, cols, depth,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    down, across = tl.cdiv(rows, M), tl.cdiv(cols, N)
    program, in_group = tl.program_id(0), GROUP * across
    first = program // in_group * GROUP
    height = min(down - first, GROUP)
    r = (first + program % in_group % height) * M + tl.arange(0, M)
    c = program % in_group // height * N + tl.arange(0, N)
    k = tl.arange(0, K)
    # Rows and columns beyond the end wrap around: their products are not stored.
    a = a_ptr + (r % rows).to(tl.int64)[:, None] * depth + k[None, :]
    b = b_ptr + k.to(tl.int64)[:, None] * cols + (c % cols)[None, :]
    y = tl.zeros([M, N], tl.float32)
    for step in range(tl.cdiv(depth, K)):
        left = depth - step * K
        factors = tl.load(a, k[None, :] < left, other=0.0), tl.load(b, k[:, None] < left, other=0.0)
        y = tl.dot(factors[0], factors[1], y, input_precision="ieee")
        a += K
        b += K * cols
    at = r.to(tl.int64)[:, None] * cols + c[None, :]
    tl.store(y_ptr + at, y, (r < rows)[:, None] & (c < cols)[None, :])


def launch(a, b, y):
    (rows, depth), cols = a.shape, b.shape[1]
    grouped[lambda values: (triton.cdiv(rows, values["M"]) * triton.cdiv(cols, values["N"]),)](
        a, b, y, rows, cols, depth
    )
