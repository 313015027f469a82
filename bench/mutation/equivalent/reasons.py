"""How reasons are written down, and those that several kernels share."""

from __future__ import annotations

Reasons = dict[tuple[str, str, str, int], str]  # by the key of a Mutant
PACK, MAP, MAP2, PHI = "common/pack.cuh", "common/map.cuh", "common/map2.cuh", "common/phi.cuh"
GAUSSIAN, POSITIVE_PART, REDUCE = "common/gaussian.cuh", "common/positive_part.cuh", "common/reduce.cuh"
TEAM, EXPONENTIALS = "common/team.cuh", "common/exponentials.cuh"

ELEMENTS = "fewer or no packs: the other elements go one by one, with the same values; slower"
ALIGNED = "this test finds no address aligned, so all elements go one by one, with the same values; slower"
TWICE = "a thread also computes elements of other threads, and writes the same values there; slower"
UNUSED = "an array of registers or shared memory with more room than is used; the same values"
ZERO = "the two differ at 0 alone, where 0 times either is the same 0"
FOLDED = "17, 8, 4, 2, 1 bring each of the 32 lanes together with all others once, as 16, 8, 4, 2, 1 do"


def budgeted(ulp: float) -> str:
    """Reason for a number of a 16-bit form, changed by a thousandth: its largest error over all values."""
    return f"{ulp} ULP at most over all values of 16 bits: within the budget of 1"


def within(ulp: float) -> str:
    """Reason for a coefficient of bench/fit_gelu.py, changed by a thousandth: its largest error over all values."""
    return f"{budgeted(ulp)}; tests/kernels/test_fit_gelu.py has the digits"


def below(ulp: float) -> str:
    """Reason for a constant of a float32 form, changed by a thousandth: results move by less than rounding moves
    them."""
    return f"moves no result by more than {ulp} ULP of float32, which is rounded to half a ULP several times"


def lines(before: str, *changes: tuple[str, str, str], nth: int = 0, file: str = "") -> Reasons:
    """Reasons for changes (old, new, reason) of the line `before`, the `nth` of those like it; `old` is there once.

    `before` is without the line's comment, and `file` is a header, or "" for the kernel's `.cu`.
    """
    found = {}
    for old, new, reason in changes:
        assert before.count(old) == 1, f"{old!r} is not there once: {before}"
        found[file, before, before.replace(old, new), nth] = reason
    return found


ALIGNED_16 = lines(
    "return ((... | (size_t)pointers) % sizeof(Pack)) == 0;",
    ("%", "*", ALIGNED),
    ("== 0", "== (-1)", ALIGNED),
    ("== 0", "== 1", ALIGNED),
    file=PACK,
)
SLOPE = lines(  # the coefficient of f^6, |f| < 1, in a sum that is about 1
    "float e = 3.0157621e-06f;", ("3.0157621e-06f", "3.0187778621e-06f", below(0.05)), file=GAUSSIAN
)
POSITIVE = lines(
    "__device__ __forceinline__ float positive_part(float x) { return x > 0.0f ? x : x * 0.0f; }",
    ("x >", "x >=", ZERO),
    file=POSITIVE_PART,
)
PHI_16 = {
    **lines("float w = 1.65309007e-06f;", ("1.65309007e-06f", "1.65474316007e-06f", within(0.82)), file=PHI),
    **lines("return x * fabsf(fmaf(-root, root, x > 0.0f ? 1.0f : 0.0f));", ("x >", "x >=", ZERO), file=PHI),
}
LANES = lines(
    "for (int s = 16; s > 0; s /= 2) value = combine(value, __shfl_xor_sync(0xffffffffu, value, s));",
    ("16", "16 + 1", FOLDED), file=REDUCE,
)  # fmt: skip
ALL_LANES = "after the exchange all lanes of the warp have the value: the others write what the first would"
ONE_WARP = "of a row that one warp has: through shared memory it gets the same value"
POWERS = "a team has a power of two of threads: none has 33"
BLOCK = {
    **lines(
        "__device__ __forceinline__ static bool several() { return blockDim.x > 32; }",
        (">", ">=", ONE_WARP),
        ("32", "31", ONE_WARP),
        ("32", "32 - 1", ONE_WARP),
        ("32", "33", POWERS),
        file=TEAM,
    ),
    **lines(
        "if (threadIdx.x % 32 == 0) table[threadIdx.x / 32] = mine;",
        ("threadIdx.x % 32 == 0", "true", ALL_LANES),
        ("==", "!=", ALL_LANES),
        ("== 0", "== 1", ALL_LANES),
        file=TEAM,
    ),
}
PACKS = lines(
    "if (aligned && first + Pack::width <= n) {",
    ("aligned && first + Pack::width <= n", "false", ELEMENTS),
    ("<=", "<", ELEMENTS),
    ("<= n", "<= first", ELEMENTS),
    ("<= n", "<= n - 1", ELEMENTS),
)
PACKS_OF_TWO = {(MAP2, *change): reason for (_, *change), reason in PACKS.items()}
LONGER = lines(
    "constexpr int WIDE = 16 / sizeof(scalar_t);",
    ("16", "17", "17 bytes hold as many whole elements of 2 or 4 bytes as 16 do"),
    ("/", "*", "longer packs than the launch counts on: every element has a thread, and many threads have no element"),
    file=PACK,
)
FAILED = "with one pack a thread the same condition was tested above, and was false"
SEVERAL_PACKS = {
    **lines(
        "if (aligned && (pack + (N - 1) * stride) * Pack::width + Pack::width <= n) {",
        ("aligned && (pack + (N - 1) * stride) * Pack::width + Pack::width <= n", "false", ELEMENTS),
        ("- 1", "+ 1", ELEMENTS),
        ("- 1", "- 0", ELEMENTS),
        ("<=", "<", ELEMENTS),
        ("<= n", "<= pack", ELEMENTS),
        file=MAP,
    ),
    **lines(
        "if (N > 1 && aligned && first + Pack::width <= n) {",
        ("N > 1 && aligned && first + Pack::width <= n", "false", ELEMENTS),
        ("N > 1", "N > 2", ELEMENTS),
        ("<= n", "<= n - 1", ELEMENTS),
        ("<= n", "<= pack", ELEMENTS),
        ("N > 1", "N >= 1", FAILED),
        ("N > 1", "N > 1 - 1", FAILED),
        file=MAP,
    ),
}
