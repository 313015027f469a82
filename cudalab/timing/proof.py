"""What a timed run cannot know beforehand: the contents of its inputs. And who judges what it left.

A kernel that finds its answer instead of computing it would look fast. So the inputs change between samples, every
output is poisoned before the clock starts, and each result is compared with the right one for those contents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from cudalab.base.errors import LaunchError
from cudalab.device.operands import Operands, Written

SLOWER = 1.25  # a first meeting that takes longer than this many times the others, and MORE, may show a kept answer
MORE = 1e-6  # seconds
SUSPICIONS = 3  # more first meetings that do than such that do not


@dataclass
class Contents:
    """The contents that the inputs of a group take in turn.

    `load(number, operands, names)` enqueues a copy of contents to the operands; None: those that the device placed;
    names: only these inputs. `draw()` makes new ones.
    """

    count: int
    load: Callable[..., None]
    rng: np.random.Generator
    draw: Callable[[], None]

    def one_more(self) -> None:
        self.draw()
        self.count += 1

    def word(self) -> int:
        """A poison: 32 bits that no kernel can expect. Every second one is NaN in all floating-point formats."""
        return 0xFFFFFFFF if self.rng.integers(2) else int(self.rng.integers(1 << 32))


@dataclass
class Proof:
    """Changes the contents for one variant and judges its timed runs.

    `judge(contents, result, digest)` raises where a result is not the right one for those contents.
    """

    contents: Contents
    judge: Callable[[int, Any, int], None]
    slower: float = SLOWER
    met: set[int] = field(default_factory=lambda: {0})  # contents that the variant has seen: the check has the first
    suspicions: int = 0

    def change(self, operands: Operands | None = None) -> int:
        """Load other contents, or the same ones anew; returns their number."""
        number = int(self.contents.rng.integers(self.contents.count))
        self.contents.load(number, operands)
        return number

    def load_in_place(self, number: int, operands: Operands) -> None:
        """Enqueue the contents of what these operands' runs update in place."""
        if isinstance(operands.output, Written) and operands.output.in_place:
            self.contents.load(number, operands, operands.output.in_place)

    def meet(self, numbers: Sequence[int], seconds: Sequence[float]) -> None:
        """Compare the samples that met their contents for the first time with the others of the same round.

        Where the first meeting takes longer, new contents are drawn to be met. Raises LaunchError after SUSPICIONS more
        such meetings than others: the variant keeps answers.
        """
        first, other = list[float](), list[float]()
        for number, time in zip(numbers, seconds, strict=True):
            (other if number in self.met else first).append(time)
            self.met.add(number)
        if not (first and other):
            return
        usual = median(other)
        if min(first) <= self.slower * usual + MORE:
            self.suspicions = max(self.suspicions - 1, 0)
        else:
            self.suspicions += 1
        if self.suspicions == SUSPICIONS:
            new, old = 1e6 * min(first), 1e6 * usual
            raise LaunchError(
                f"it stores answers: {new:.3g} us on contents that it sees for the first time, {old:.3g} us later"
            )
        if self.suspicions:
            self.contents.one_more()
