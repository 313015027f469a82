"""Why mutants of gelu survive."""

from mutation.equivalent.reasons import (
    ALIGNED_16,
    GAUSSIAN,
    LONGER,
    PHI_16,
    POSITIVE,
    SEVERAL_PACKS,
    SLOPE,
    lines,
)

TWICE_AS_MANY = "blocks of the first half cover the array, the others find nothing to do; slower"

RARE = "4.33 ULP at -7.6900773, within the budget of 4 at all but a few values: the check of all of float32 finds them"
VANISHES = "beyond 14.2 Phi(-a) vanishes, and every result is x or 0"

REASONS = {
    **LONGER,
    **PHI_16,
    **POSITIVE,
    **SLOPE,
    **lines(
        "const float a = fminf(fabsf(x), 16.0f), v = fraction_of(a, PHI_C), q = phi_quotient(v), s = a * a;",
        ("16.0f", "16.016f", VANISHES),
    ),
    **lines("return fmaf(r, fmaf(-v, d, a), v);", ("(r", "(v", RARE), file=GAUSSIAN),
    **ALIGNED_16,
    **SEVERAL_PACKS,
    **lines("if (packs == 1) map_block<gelu, 1>(kept(x), y, n);", ("packs == 1", "packs == 0", TWICE_AS_MANY)),
}
