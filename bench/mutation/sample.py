"""Some of the mutants of a kernel, where all of them would take too long."""

from __future__ import annotations

import random

from mutation.rules import Mutant

GOLDEN = (5**0.5 - 1) / 2  # a step as a fraction of a circle: any number of such steps leaves no large gap


def sample(found: list[Mutant], n: int, seed: str) -> list[Mutant]:
    """`n` of the mutants in the order of their places, or all if there are no more; the same for the same seed.

    They are spread evenly over the mutants in the order of the rules and, of a rule, of the lines, so that their score
    estimates that of all. A larger `n` keeps these mutants and adds others.
    """
    if n >= len(found):
        return found
    ranked = sorted(found, key=lambda m: (m.rule, m.file, m.line, m.column, m.new))
    place = random.Random(seed).random()
    chosen: set[str] = set()
    while len(chosen) < n:
        chosen.add(ranked[int(place * len(ranked))].text)
        place = (place + GOLDEN) % 1
    return [m for m in found if m.text in chosen]
