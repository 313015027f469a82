"""Why mutants of gelu survive."""

from mutation.equivalent.reasons import APART, ELEMENTS, ZERO, exp2, lines

FAILED = "with one pack a thread the same has been asked above, and was not so"

REASONS = {
    **lines(
        "__device__ __forceinline__ float positive_part(float x) { return x > 0.0f ? x : x * 0.0f; }",
        ("x >", "x >=", ZERO),
    ),
    **exp2(", since a sum that begins with 1 would be rounded once more"),
    **APART,
    **lines(
        "if (aligned && (pack + (N - 1) * stride) * Pack::width + Pack::width <= n) {",
        ("aligned && (pack + (N - 1) * stride) * Pack::width + Pack::width <= n", "false", ELEMENTS),
    ),
    **lines(
        "if (N > 1 && aligned && first + Pack::width <= n) {",
        ("N > 1", "N > 2", ELEMENTS),
        ("N > 1 && aligned && first + Pack::width <= n", "false", ELEMENTS),
        ("<= n", "<= pack", ELEMENTS),
        ("N > 1", "N >= 1", FAILED),
    ),
}
