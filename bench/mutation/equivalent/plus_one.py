"""Why mutants of plus_one survive."""

from mutation.equivalent.reasons import ALIGNED_16, ELEMENTS, LONGER, PACKS, lines

REASONS = {
    **LONGER,
    **PACKS,
    **lines("if (aligned && first + Pack::width <= n) {", ("first", "n", ELEMENTS)),
    **ALIGNED_16,
}
