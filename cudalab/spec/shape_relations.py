"""How the shapes of a kernel's inputs depend on one another, as the inputs that its spec makes show it.

For specs without `agree`: a call with too short a second input would read beyond its end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from cudalab.spec.launch import Shape

MOST = 1 << 16  # elements of the sizes that are looked at: making them takes milliseconds

# By input but the first: for each of its dimensions the dimensions of the first input that are always as long.
Relations = dict[str, tuple[tuple[int, ...], ...]]


def relations(sizes: Iterable[Shape], shapes_at: Callable[[Shape], Mapping[str, Shape]]) -> Relations:
    """What holds at all small sizes; `shapes_at` gives the inputs' shapes at a size, the first input's first.

    An input whose rank varies is left out, and so is all where fewer than two sizes are known.
    """
    try:
        seen = [shapes_at(size) for size in dict.fromkeys(sizes) if 0 < math.prod(size) <= MOST]
    except Exception:  # from the spec's own functions; a check says it
        return {}
    if len({tuple(one.items()) for one in seen}) < 2:
        return {}
    first, *others = seen[0]
    ranks = {name: {len(one[name]) for one in seen} for name in seen[0]}
    if len(ranks[first]) > 1:
        return {}
    return {
        name: tuple(
            tuple(j for j in range(max(ranks[first])) if all(one[name][i] == one[first][j] for one in seen))
            for i in range(max(ranks[name]))
        )
        for name in others
        if len(ranks[name]) == 1
    }


def broken(found: Relations, shapes: Mapping[str, Shape]) -> str:
    """Which dimension does not fit the first input, and how long it should be; "" if all do, as far as is known."""
    first = next(iter(shapes))
    for name, dimensions in found.items():
        if len(shapes[name]) != len(dimensions):
            return f"{name} has {len(shapes[name])} dimensions instead of {len(dimensions)}"
        for i, alike in enumerate(dimensions):
            inside = [j for j in alike if j < len(shapes[first])]
            if inside and all(shapes[name][i] != shapes[first][j] for j in inside):
                wanted = shapes[first][inside[0]]
                return (
                    f"dimension {i} of {name} is {shapes[name][i]:,} and should be {wanted:,}, as dimension "
                    f"{inside[0]} of {first}"
                )
    return ""
