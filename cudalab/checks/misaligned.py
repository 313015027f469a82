"""Arrays off their alignment, each by whole elements of its own, as slices of larger arrays are."""

from __future__ import annotations

from collections.abc import Mapping

STEPS = (1, 2, 4, 8)  # bytes: those of slices and packed records, below the 16 of the widest access


def offsets(itemsizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """By a name for it, bytes from the usual alignment to the start of each array: of all arrays, then of each alone.

    `itemsizes` has the bytes of an element by array. No array moves by less than one of its elements.
    """
    sizes = itemsizes.values()
    found = {}
    for step in STEPS:
        if step >= min(sizes):
            more = "" if step >= max(sizes) else " or more"
            found[f"all +{step} B{more}"] = tuple(max(step, size) for size in sizes)
    return found | {f"{a} +{size} B": tuple(size * (b == a) for b in itemsizes) for a, size in itemsizes.items()}
