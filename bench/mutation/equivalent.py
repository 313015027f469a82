"""Mutants that no check of answers can kill, each with the reason: what survives and is not here is a gap in the gate.

Keyed by the kernel, the mutant's line before and its line after. Most give up speed and nothing else: the packed path
and the element path of a kernel write the same values, so which of them an element takes shows in times alone.
"""

from __future__ import annotations

Reasons = dict[tuple[str, str], str]

ELEMENTS = "fewer or no packs: the elements go the other way, one by one, to the same values; slower"
ALIGNED = "no address is aligned by this test, so all elements go one by one, to the same values; slower"
SQUARE = "the launch has square blocks: blockDim.x and blockDim.y are the same number"
TWICE = "a thread goes on into the elements of the next, and writes what that one writes there; slower"


def _lines(before: str, *changes: tuple[str, str, str]) -> Reasons:
    """Reasons for changes (old, new, reason) of the one line `before`; `old` is there once."""
    return {(before, before.replace(old, new)): reason for old, new, reason in changes}


WIDTH = _lines(
    "static const int width = 16 / sizeof(scalar_t);",
    ("16", "17", "17 bytes hold as many whole elements of 2 or 4 bytes as 16 do"),
    ("/", "*", "longer packs than the launch counts on: every element has a thread, and many threads have nothing"),
)
CHOICE = _lines(
    "if (aligned && first + Pack::width <= n) {",
    ("aligned && first + Pack::width <= n", "false", ELEMENTS),
    ("<=", "<", ELEMENTS),
    ("<= n", "<= first", ELEMENTS),
    ("<= n", "<= n - 1", ELEMENTS),
)
NEVER = _lines("if (aligned && first + Pack::width <= n) {", ("first", "n", ELEMENTS))
ALIGNMENT = _lines(
    "const bool aligned = ((size_t)x % sizeof(Pack) | (size_t)y % sizeof(Pack)) == 0;",
    ("x %", "x *", ALIGNED),
    ("y %", "y *", ALIGNED),
    ("== 0", "== (-1)", ALIGNED),
    ("== 0", "== 1", ALIGNED),
)


MATRIX = {
    **_lines(
        "const long long col = (long long)blockIdx.x * blockDim.x + threadIdx.x;", ("blockDim.x", "blockDim.y", SQUARE)
    ),
    **_lines(
        "const long long step = (long long)gridDim.y * blockDim.y;",
        ("blockDim.y", "blockDim.x", SQUARE),
    ),
    **_lines(
        "for (long long row = (long long)blockIdx.y * blockDim.y + threadIdx.y; row < rows; row += step)",
        ("blockDim.y", "blockDim.x", SQUARE),
    ),
    **_lines(
        "const bool aligned = (((size_t)a | (size_t)b | (size_t)y) % sizeof(Pack)) == 0;",
        ("%", "*", ALIGNED),
        ("== 0", "== (-1)", ALIGNED),
        ("== 0", "== 1", ALIGNED),
    ),
}


def _tail(body: str, *changes: tuple[str, str, str]) -> Reasons:
    before = f"for (long long i = first; i < n && i < first + Pack::width; ++i) {body}"
    return _lines(before, ("i < first", "i <= first", TWICE), *changes)


TO_THE_END = ("i < first", "i < i", TWICE)

EQUIVALENT: dict[str, Reasons] = {
    "plus_one": {**WIDTH, **ALIGNMENT, **CHOICE, **NEVER, **_tail("y[i] = x[i] + 1;", TO_THE_END)},
    "add2d": {**MATRIX, **WIDTH, **CHOICE, **_tail("y[i] = a[i] + b[i];", TO_THE_END)},
}
