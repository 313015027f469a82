"""Why mutants of bias_gelu survive."""

from mutation.equivalent.reasons import ALIGNED, LONGER, ZERO, lines, within

TALL = "of a matrix with more than 524,280 rows: seconds for each check; tests/test_kernels.py makes the grid small"
NO_ROW = "a row that is the number of rows has none of them below, and nothing is done"
ALL_ROWS = "a thread takes the last rows, and all below them, one by one: what others write as well; slower"
VANISHES = "beyond 15 y is z or 0 to all digits, whatever the sum has lost"
FINITE = VANISHES + ", but for an infinite z: F.gelu on a CPU makes NaN of it, so it is in tests/test_kernels.py alone"

EXACT = "where z is 0 nothing of the sum is lost, and either sign is that of a 0"
BEFORE = "the factor is the float32 number before: half a ULP of the result, within the budget of 5"
OVERLAP = "threads go on into the rows of others, to the same values, as long as a grid has all rows; " + TALL

REASONS = {
    **lines("return x * fabsf(fmaf(-root, root, x > 0.0f ? 1.0f : 0.0f));", ("x >", "x >=", ZERO)),
    **lines("float w = 1.65309007e-06f;", ("1.65309007e-06f", "1.65474316007e-06f", within(0.82))),
    **lines(
        "return fabsf(z) < 16.0f ? (z > 0.0f ? low : -low) : 0.0f;",
        ("fabsf(z) < 16.0f", "true", FINITE),
        ("16.0f", "16.0f - 1", VANISHES),
        ("z > 0.0f", "z >= 0.0f", EXACT),
        (": 0.0f", ": 0.001f", VANISHES),
    ),
    **lines(
        "for (long long row = (long long)blockIdx.y * blockDim.y + threadIdx.y; row < rows; row += step)",
        ("+= step", "+= 2 * (step)", TALL),
    ),
    **lines(
        "q *= __uint_as_float((__float_as_uint(shifted) << 23) + 0x5F800000u);", ("0x5F800000u", "0x5f7fffffu", BEFORE)
    ),
    **LONGER,
    **lines("const long long step = (long long)gridDim.y * blockDim.y * VEC_ROWS;", ("gridDim", "blockDim", OVERLAP)),
    **lines(
        "if ((((size_t)x | (size_t)bias | (size_t)y) % sizeof(Pack)) == 0 && cols % Pack::width == 0) {",
        ("y) %", "y) *", ALIGNED),
    ),
    **lines("for (long long row = first; row < rows; row += step) {", ("<", "<=", NO_ROW)),
    **lines("if (row + VEC_ROWS <= rows) {", ("row +", "rows +", ALL_ROWS)),
}
