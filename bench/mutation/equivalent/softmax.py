"""Why mutants of softmax survive."""

from mutation.equivalent.reasons import ALIGNED_16, ELEMENTS, LANES, TWICE, UNUSED, lines

ALL_LANES = "after the exchange all lanes of the warp have the value: the others write what the first would"
NEAR = "the subtracted number cancels: any number near the largest avoids overflow and underflow"
WITHIN = "the 16 bits' exponential is 12 ULP off in float32, within the budget of 16, which rounding x - max asks for"
PLAIN = "of a row that one warp has: the entries that call this are launched with 256 threads"
NEIGHBOURS = "of 256 threads, one in each warp has a number divisible by 33, and all lanes of a warp have its value"
MANY = "only for more rows than threads in a block, and longer ones: no size of the CPU's check; the GPU's has `large`"
NOTHING = "a row of -1 columns has nothing to read or to write either"
HOLLOW = "a second pack begins beyond the row, and counts as -inf; slower"
LONG = "the form for rows of any length also takes rows that would fit into registers; slower"

REASONS = {
    **lines("if (blockDim.x <= 32) return value;", ("blockDim.x <= 32", "false", PLAIN)),
    **ALIGNED_16,
    **LANES,
    **lines(
        "row.top = over_lanes<largest>(fmaxf(mine.top, largest_of<n>(v)), blockDim.x);",
        ("(v))", "(v) - 1)", NEAR),
        ("x);", "x) - 1;", NEAR),
    ),
    **lines(
        "else if (length <= turn * (HELD / WIDE)) softmax_row<WIDE, HELD / WIDE, true, false>(x, y, cols, partial);",
        ("<= turn", "< turn", LONG),
        ("turn *", "turn /", LONG),
        ("turn *", "few *", LONG),
    ),
    **lines("if (lane == 0) partial[warp] = value;", ("==", "!=", ALL_LANES), ("0", "1", ALL_LANES)),
    **lines("if (lane == 0) partial[threadIdx.x / 32] = warp;", ("==", "!=", ALL_LANES)),
    **lines(
        "const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;",
        ("% 32", "% 33", NEIGHBOURS),
    ),
    **lines("__shared__ float partial[32];", ("32", "31", UNUSED), nth=1),
    **lines("__shared__ Running partial[32];", ("32", "33", UNUSED)),
    **lines(
        "const int length = cols, turn = blockDim.x * WIDE;",
        ("blockDim.x", "blockDim.y", LONG),
    ),
    **lines(
        "if (row >= rows) cols = 0;",
        ("cols = 0", "cols = (-1)", NOTHING),
    ),
    **lines(
        "else if (length <= turn) softmax_row<WIDE, 1, true, one_warp>(x, y, cols, partial);",
        ("1, true", "2, true", HOLLOW),
    ),
    **lines(
        "else if (length <= turn * few) softmax_row<WIDE, few, true, one_warp>(x, y, cols, partial);",
        ("length <= turn * few", "false", LONG),
    ),
    **lines(
        "for (long long c = threadIdx.x; c < cols; c += blockDim.x) y[c] = scalar_t(expf(float(x[c]) - top) * scale);",
        ("blockDim.x", "blockDim.y", TWICE),
        ("blockDim.x", "gridDim.x", MANY),
    ),
    **lines(
        "__device__ __forceinline__ float power(float d) "
        "{ return sizeof(scalar_t) == 4 ? expf(d) : exp2f(d * 1.44269504f); }",
        ("== 4", "== 3", WITHIN),
        ("== 4", "== 5", WITHIN),
    ),
    **lines("all.top = over_lanes<largest>(other.top, warps);", ("warps)", "warps) - 1", NEAR)),
    **lines("if (!wide) softmax_row<1, 4, false, one_warp>(x, y, cols, partial);", ("!wide", "true", ELEMENTS)),
}
