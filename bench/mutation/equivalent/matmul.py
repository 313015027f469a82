"""Why mutants of matmul survive."""

from mutation.equivalent.reasons import UNUSED, lines

ZEROS = "one more round, with tiles that lie beyond the matrices and are 0: it adds nothing; slower"
OTHER = "elements of one tile beyond the inner dimension are multiplied by 0 in the other; y beyond is not written"
STEPS = "depth is a multiple of DEPTH: -8, 0, 8 ..."

REASONS = {
    **lines("for (int left = 0; left < k; left += TILE) {", ("<", "<=", ZEROS)),
    **lines("for (int depth = -DEPTH; depth < k; depth += DEPTH) {", ("<", "<=", ZEROS)),
    **lines(
        "a_tile[threadIdx.y][threadIdx.x] = row < m && l < k ? a[(size_t)row * k + l] : 0.0f;",
        ("0.0f", "0.001f", OTHER),
    ),
    **lines(
        "b_tile[threadIdx.y][threadIdx.x] = r < k && col < n ? b[(size_t)r * n + col] : 0.0f;",
        ("0.0f", "0.001f", OTHER),
    ),
    **lines("a_next[p] = a_row < m && a_col < k ? a[(size_t)a_row * k + a_col] : 0.0f;", ("0.0f", "0.001f", OTHER)),
    **lines("b_next[p] = b_row < k && b_col < n ? b[(size_t)b_row * n + b_col] : 0.0f;", ("0.0f", "0.001f", OTHER)),
    **lines("if (depth >= 0) {", ("0", "(-1)", STEPS), ("0", "0 - 1", STEPS)),
    **lines(
        "float sum[8][8] = {}, a_next[PER], b_next[PER];",
        ("sum[8]", "sum[9]", UNUSED),
        ("[8] =", "[9] =", UNUSED),
    ),
    **lines(
        "#define PER (SIDE * DEPTH / 256)",
        ("256", "255", "1024 / 255 is 4 as well"),
    ),
    **lines("__align__(16) float u[8], v[8];", ("u[8]", "u[9]", UNUSED), ("v[8]", "v[9]", UNUSED)),
}
