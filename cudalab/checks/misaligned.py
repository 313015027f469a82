"""Arrays off their alignment, each by whole elements of its own, as slices of larger arrays are."""

from __future__ import annotations

from collections.abc import Mapping

STEPS = (1, 2, 4, 8)  # bytes: those of slices and packed records, below the 16 of the widest access


def offsets(least: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """By a name for it, bytes from the usual alignment to the start of each array: of all arrays, then of each alone.

    `least` has by array the least bytes that it moves by: an element's, or more where the kernel asks for an alignment.
    """
    sizes = least.values()
    found = {}
    for step in (*STEPS, min(sizes)) if min(sizes) > max(STEPS) else STEPS:
        if step >= min(sizes):
            more = "" if step >= max(sizes) else " or more"
            found[f"all +{step} B{more}"] = tuple(max(step, size) for size in sizes)
    return found | {f"{a} +{size} B": tuple(size * (b == a) for b in least) for a, size in least.items()}
