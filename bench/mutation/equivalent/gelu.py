"""Why mutants of gelu survive."""

from mutation.equivalent.reasons import APART, LONGER, SEVERAL_PACKS, ZERO, exp2, lines, within

TWICE_AS_MANY = "blocks of the first half cover the array, the others find nothing to do; slower"

RARE = "4.33 ULP at -7.6900773, within the budget of 4 at all but a few values: the check of all of float32 finds them"
VANISHES = "beyond 14.2 Phi(-a) vanishes, and every result is x or 0"

REASONS = {
    **LONGER,
    **lines("float w = 1.65309007e-06f;", ("1.65309007e-06f", "1.65474316007e-06f", within(0.82))),
    **lines("return x * fabsf(fmaf(-root, root, x > 0.0f ? 1.0f : 0.0f));", ("x >", "x >=", ZERO)),
    **lines(
        "const float a = fminf(fabsf(x), 16.0f), d = a + 2.48925781f, r = __fdividef(1.0f, d);",
        ("16.0f", "16.016f", VANISHES),
    ),
    **lines("v = fmaf(r, fmaf(-v, d, a), v);", ("(r", "(v", RARE)),
    **lines(
        "__device__ __forceinline__ float positive_part(float x) { return x > 0.0f ? x : x * 0.0f; }",
        ("x >", "x >=", ZERO),
    ),
    **exp2(", since a sum that begins with 1 would be rounded once more"),
    **APART,
    **SEVERAL_PACKS,
    **lines("if (packs == 1) gelu_block<1>(kept(x), y, n);", ("packs == 1", "packs == 0", TWICE_AS_MANY)),
}
