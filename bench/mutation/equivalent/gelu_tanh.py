"""Why mutants of gelu_tanh survive."""

from mutation.equivalent.reasons import ALIGNED_16, LONGER, POSITIVE, SEVERAL_PACKS, ZERO, below, budgeted, lines

VANISHES = "beyond 12 every result is x or 0"

REASONS = {
    # K1_LOW * a is an exponent of 2, and 3e-6 at most.
    **lines("#define K1_LOW 2.5136697e-7f", ("2.5136697e-7f", "2.516183369699999e-07f", below(0.04))),
    **lines("#define K3_LOW -2.01619832e-9f", ("-2.01619832e-9f", "-2.01821451832e-09f", below(0.04))),
    **lines("return x * fabsf((x > 0.0f ? 1.0f : 0.0f) - tail);", ("x >", "x >=", ZERO)),
    **lines(
        "return x * fabsf(fmaf(-q, __fdividef(1.0f, 1.0f + q), x > 0.0f ? 1.0f : 0.0f));",
        ("(1.0f,", "(1.001f,", budgeted(0.75)),
        ("1.0f + q", "1.001f + q", budgeted(0.74)),
        ("? 1.0f", "? 1.001f", budgeted(1)),
        ("x >", "x >=", ZERO),
        ("x > 0.0f", "x > 0.001f", budgeted(0.5)),
    ),
    **lines(
        "const float a = fminf(fabsf(x), 12.0f);",
        ("12.0f", "12.011999999999999f", VANISHES),
    ),
    # The coefficients of f^6 and f^5, |f| <= 1/2, in a sum that is about 1.
    **lines(
        "float e = 0.000153458124f;",
        ("0.000153458124f", "0.000153611582124f", below(0.04)),
    ),
    **lines("e = fmaf(e, f, 0.00133999309f);", ("0.00133999309f", "0.0013413330830899998f", below(0.71))),
    **LONGER,
    **ALIGNED_16,
    **POSITIVE,
    **SEVERAL_PACKS,
}
