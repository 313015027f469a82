"""Why mutants of layernorm survive."""

from mutation.equivalent.reasons import ALIGNED_16, BLOCK, LANES, lines

ZERO_SUM = "distances from the mean add up to 0 with any common factor: the same number up to rounding"
NO_WEIGHT = "a mean of no numbers, which has weight 0 in the joined mean"
CORRECTION = "a thousandth of a term that corrects the last digit of a division"
PAST = "a pack that begins beyond the row, where nothing is done"
NO_DISTANCE = "means that are equal add nothing, and those of no numbers are equal"
TURNS = "the row takes more turns and gets the same values; slower"
TURN = "one more turn, with packs that begin beyond the row, where nothing is done"
SINGLY = "all rows go element by element, to the same values; slower"
UNREAD = "a second pack is loaded, and not used; slower"

REASONS = {
    **ALIGNED_16,
    **LANES,
    **BLOCK,
    **lines("return fmaf(__fdividef(1.0f, b), fmaf(-q, b, a), q);", ("1.0f", "1.001f", CORRECTION)),
    **lines(
        "for (int p = 0; p < packs; ++p) finish<width>(y, v, p, gamma, beta, at + p, cols, mean, scale);",
        ("p < packs", "p <= packs", PAST),
    ),
    **lines("Held<width, 1> one;", ("1", "2", UNREAD)),
    **lines(
        "const bool wide = aligned16(x, gamma, beta, y) && cols % WIDE == 0;",
        ("== 0;", "== (-1);", SINGLY),
        nth=1,
    ),
    **lines(
        "else if (cols <= 2 * WIDE * (int)blockDim.x) "
        "eight_a_thread<WIDE, 2, true>(x, gamma, beta, y, cols, eps, partial);",
        ("blockDim.x", "blockDim.y", TURNS),
    ),
    **lines(
        "else layernorm_row<WIDE, 2, false, Team>(x, gamma, beta, y, cols, length, eps, table);", ("2", "1", TURNS)
    ),
    **lines(
        "for (long long c = threadIdx.x; c < cols; c += blockDim.x) "
        "squares += (float(x[c]) - mean) * (float(x[c]) - mean);",
        ("- mean) *", "- eps) *", ZERO_SUM),
        ("- mean) *", "+ mean) *", ZERO_SUM),
        ("- mean);", "+ mean);", ZERO_SUM),
    ),
    **lines(
        "squares += other.squares + (all == 0.0f ? 0.0f : d * d * n * __fdividef(other.n, all));",
        ("(all ==", "(d ==", NO_DISTANCE),
    ),
    **lines(
        "const int turns = whole ? 1 : (cols + n * blockDim.x - 1) / (n * blockDim.x);",
        ("- 1)", "+ 1)", TURN),
    ),
    **lines(
        "const bool wide = aligned16(x, gamma, beta, y) && cols % WIDE == 0;",
        ("cols %", "cols *", SINGLY),
    ),
    **lines(
        "__device__ __forceinline__ float mean() const { return n == 0.0f ? 0.0f : __fdividef(sum, n); }",
        ("? 0.0f", "? 0.001f", NO_WEIGHT),
    ),
}
