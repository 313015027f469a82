"""Why mutants of gelu_backward survive."""

from mutation.equivalent.reasons import ALIGNED_16, LONGER, PACKS_OF_TWO, SLOPE, lines

HALF = "the two differ at 0 alone, where the gradient is 1/2 from either side"

REASONS = {
    **LONGER,
    **lines(
        "const float positive = x > 0.0f ? 1.0f : 0.0f, from = fmaf(positive, -2.0f * A0_HIGH, x + A0_HIGH);",
        ("x >", "x >=", HALF),
    ),
    **ALIGNED_16,
    **SLOPE,
    **PACKS_OF_TWO,
}
