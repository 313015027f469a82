"""Why mutants of gelu_tanh survive."""

from mutation.equivalent.reasons import APART, ELEMENTS, PACKS, ZERO, below, lines, within

REASONS = {
    # K1_LOW * a is an exponent of 2, and 3e-6 at most.
    **lines("#define K1_LOW 2.5136697e-7f", ("2.5136697e-7f", "2.516183369699999e-07f", below(0.04))),
    **lines(
        "return x * fabsf(fmaf(-q, __fdividef(1.0f, 1.0f + q), x > 0.0f ? 1.0f : 0.0f));",
        ("(1.0f,", "(1.001f,", within(0.75)),
        ("x >", "x >=", ZERO),
        ("x > 0.0f", "x > 0.001f", within(0.5)),
    ),
    # The coefficient of f^6, |f| <= 1/2, in a sum that is about 1.
    **lines(
        "float e = 0.000153458124f;  // exp2(f), bench/fit_gelu.py",
        ("0.000153458124f", "0.000153611582124f", below(0.04)),
    ),
    **APART,
    **PACKS,
    **lines("if (aligned && first + Pack::width <= n) {", ("first", "n", ELEMENTS)),
}
