"""Why mutants of softmax survive."""

from mutation.equivalent.reasons import ALIGNED_16, BLOCK, ELEMENTS, EXPONENTIALS, LANES, TWICE, lines

NEAR = "the subtracted number cancels: any number near the largest avoids overflow and underflow"
WITHIN = "the 16 bits' exponential is 12 ULP off in float32, within the budget of 16, which rounding x - max asks for"
MANY = "only for more rows than threads in a block, and longer ones: no size of the CPU's check; the GPU's has `large`"
NOTHING = "a row of -1 columns has nothing to read or to write either"
HOLLOW = "a second pack begins beyond the row, and counts as -inf; slower"
LONG = "the form for rows of any length also takes rows that would fit into registers; slower"

REASONS = {
    **ALIGNED_16,
    **LANES,
    **BLOCK,
    **lines(
        "row.top = over_lanes<largest>(fmaxf(mine.top, v.top()), Team::lanes());",
        ("lanes());", "lanes()) - 1;", NEAR),
    ),
    **lines(
        "else if (many > few && length <= turn * many) "
        "softmax_row<Elements<many>, many, true, Team>(x, y, cols, table);",
        ("<= turn", "< turn", LONG),
        ("turn *", "turn /", LONG),
    ),
    **lines("const int turn = blockDim.x * WIDE;", ("blockDim.x", "blockDim.y", LONG)),
    **lines("const int cols = exists ? length : 0;", (": 0", ": (-1)", NOTHING)),
    **lines(
        "else if (length <= turn) softmax_row<Elements<1>, 1, true, Team>(x, y, cols, table);", ("<1>", "<2>", HOLLOW)
    ),
    **lines(
        "else if (length <= turn * few) softmax_row<Elements<few>, few, true, Team>(x, y, cols, table);",
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
        file=EXPONENTIALS,
    ),
    **lines("if (!wide) softmax_row<Floats<1, 4>, 4, false, Team>(x, y, cols, table);", ("!wide", "true", ELEMENTS)),
}
