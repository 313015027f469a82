"""How reasons are written down, and those that several kernels share."""

from __future__ import annotations

Reasons = dict[tuple[str, str, int], str]  # by the key of a Mutant

ELEMENTS = "fewer or no packs: the elements go the other way, one by one, to the same values; slower"
ALIGNED = "no address is aligned by this test, so all elements go one by one, to the same values; slower"
TWICE = "a thread goes on into the elements of others, and writes what those write there; slower"
UNUSED = "an array of registers or shared memory with more room than is used; the same values"
ZERO = "the two differ at 0 alone, where 0 times either is the same 0"


def budgeted(ulp: float) -> str:
    """Of a number in a 16-bit form, a thousandth off, with the largest error that the check then finds."""
    return f"{ulp} ULP at most over all values of 16 bits: within the budget of 1"


def within(ulp: float) -> str:
    """The same of a coefficient that bench/fit_gelu.py makes."""
    return f"{budgeted(ulp)}; tests/kernels/test_fit_gelu.py has the digits"


def below(ulp: float) -> str:
    """Of a constant of a float32 form, a thousandth off, that moves results by less than their own rounding does."""
    return f"moves no result by more than {ulp} ULP of float32, which is rounded to half a ULP several times"


def lines(before: str, *changes: tuple[str, str, str], nth: int = 0) -> Reasons:
    """Reasons for changes (old, new, reason) of the line `before`, the `nth` of those like it; `old` is there once."""
    found = {}
    for old, new, reason in changes:
        assert before.count(old) == 1, f"{old!r} is not there once: {before}"
        found[before, before.replace(old, new), nth] = reason
    return found


def aligned(before: str) -> Reasons:
    """Of a test of several addresses at once, which then finds no address aligned."""
    return lines(before, ("%", "*", ALIGNED), ("== 0", "== (-1)", ALIGNED), ("== 0", "== 1", ALIGNED))


def exp2(more: str = "") -> Reasons:
    """Of the coefficient of f^6, |f| < 1, in a sum that is about 1; `more` is in the comment behind it."""
    before = f"float e = 3.0157621e-06f;  // (exp2(f / UNIT) - 1) / f{more}"
    return lines(before, ("3.0157621e-06f", "3.0187778621e-06f", below(0.05)))


APART = lines(
    "const bool aligned = ((size_t)x % sizeof(Pack) | (size_t)y % sizeof(Pack)) == 0;",
    ("x %", "x *", ALIGNED),
    ("y %", "y *", ALIGNED),
    ("== 0", "== (-1)", ALIGNED),
    ("== 0", "== 1", ALIGNED),
)
PACKS = lines(
    "if (aligned && first + Pack::width <= n) {",
    ("aligned && first + Pack::width <= n", "false", ELEMENTS),
    ("<=", "<", ELEMENTS),
    ("<= n", "<= first", ELEMENTS),
    ("<= n", "<= n - 1", ELEMENTS),
)
LONGER = lines(
    "static const int width = 16 / sizeof(scalar_t);",
    ("16", "17", "17 bytes hold as many whole elements of 2 or 4 bytes as 16 do"),
    ("/", "*", "longer packs than the launch counts on: every element has a thread, and many threads have nothing"),
)
FAILED = "with one pack a thread the same has been asked above, and was not so"
SEVERAL_PACKS = {
    **lines(
        "if (aligned && (pack + (N - 1) * stride) * Pack::width + Pack::width <= n) {",
        ("aligned && (pack + (N - 1) * stride) * Pack::width + Pack::width <= n", "false", ELEMENTS),
        ("- 1", "+ 1", ELEMENTS),
        ("- 1", "- 0", ELEMENTS),
        ("<=", "<", ELEMENTS),
        ("<= n", "<= pack", ELEMENTS),
    ),
    **lines(
        "if (N > 1 && aligned && first + Pack::width <= n) {",
        ("N > 1 && aligned && first + Pack::width <= n", "false", ELEMENTS),
        ("N > 1", "N > 2", ELEMENTS),
        ("<= n", "<= n - 1", ELEMENTS),
        ("<= n", "<= pack", ELEMENTS),
        ("N > 1", "N >= 1", FAILED),
        ("N > 1", "N > 1 - 1", FAILED),
    ),
}
