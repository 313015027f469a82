"""Why mutants of gelu survive."""

from mutation.equivalent.reasons import APART, ELEMENTS, ZERO, exp2, lines, within

FAILED = "with one pack a thread the same has been asked above, and was not so"
SEVERAL = "of arrays of 2^21 packs and more: seconds for each check; tests/test_kernels.py has small ones of them"
TWICE_AS_MANY = "blocks of the first half cover the array, the others find nothing to do; slower"

REASONS = {
    **lines("float w = 1.65309007e-06f;", ("1.65309007e-06f", "1.65474316007e-06f", within(0.82))),
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
        ("first + Pack::width", "first + (Pack::width - 1)", SEVERAL),
    ),
    **lines("if (packs == 1) gelu_block<1>(kept(x), y, n);", ("packs == 1", "packs == 0", TWICE_AS_MANY)),
}
