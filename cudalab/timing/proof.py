"""What a timed run cannot know beforehand: the contents of its inputs. And who judges what it left.

A kernel that finds its answer instead of computing it would look fast. So the inputs change between samples, every
output is poisoned before the clock starts, and each result is compared with the right one for those contents.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from cudalab.base import numbers
from cudalab.base.errors import LaunchError, out_of_memory
from cudalab.device.operands import Operands, Written

NOT_CONFIRMED = "no other contents fit into memory, on which one more run would confirm its time"


@dataclass(frozen=True)
class Limits:
    """From when on a first meeting with new contents is so slow that it shows a kept answer."""

    slower: float  # it takes longer than this many times the others, and `more`
    usual: Callable[[Sequence[float]], float]  # one time of the others of a round
    enough: int  # more first meetings that do than such that do not
    tries: int  # runs on new contents that confirm a time, if each takes longer: one that keeps answers is never faster
    more: float = 1e-6  # seconds
    more_alone: float = 1e-6  # seconds that such a run may take more, which is no part of a sample of several


GPU = Limits(slower=1.25, usual=median, enough=3, tries=8)
# Where the CPU's other programs delay any run, the first one with new contents or a later one.
CPU = Limits(slower=3.0, usual=max, enough=5, tries=12, more_alone=20e-6)


@dataclass
class Contents:
    """The contents that the inputs of a group take in turn.

    `load(number, operands, names)` enqueues a copy of contents to the operands; None: those that the device placed;
    names: only these inputs. `draw()` makes new ones. `last`: others are drawn when all samples are taken.
    """

    count: int
    load: Callable[..., None]
    rng: np.random.Generator
    draw: Callable[[], None]
    last: bool = False

    def one_more(self) -> None:
        self.draw()
        self.count += 1

    def unmet(self, met: Collection[int]) -> int | None:
        """Contents that are not among `met`; None where there is no memory for more."""
        if unmet := set(range(self.count)).difference(met):
            return min(unmet)
        try:
            self.one_more()
        except Exception as error:  # the driver's has a type of its own
            if not out_of_memory(error):
                raise
            return None
        return self.count - 1

    def word(self) -> int:
        """A poison: 32 bits that no kernel can expect. Every second one is NaN in all floating-point formats."""
        return 0xFFFFFFFF if self.rng.integers(2) else int(self.rng.integers(1 << 32))


@dataclass
class Proof:
    """Changes the contents for one variant and judges its timed runs.

    `judge(contents, result, digest, clock)` raises where a result is not the right one for those contents; `clock`
    tells the results of one kind of time from the others.
    """

    contents: Contents
    judge: Callable[[int, Any, int, object], None]
    limits: Limits = GPU
    met: set[int] = field(default_factory=lambda: {0})  # contents that the variant has seen: the check has the first
    suspicions: int = 0
    due: int | None = None  # the contents of the next samples; None: they are drawn

    def change(self, operands: Operands | None = None) -> int:
        """Load other contents, or the same ones anew; returns their number."""
        number = int(self.contents.rng.integers(self.contents.count)) if self.due is None else self.due
        self.contents.load(number, operands)
        return number

    def known(self) -> int:
        """Load contents that the variant has met; returns their number."""
        number = int(self.contents.rng.choice(sorted(self.met)))
        self.contents.load(number)
        return number

    def load_in_place(self, number: int, operands: Operands) -> None:
        """Enqueue the contents of what these operands' runs update in place."""
        if isinstance(operands.output, Written) and operands.output.in_place:
            self.contents.load(number, operands, operands.output.in_place)

    def meet(self, numbers: Sequence[int], seconds: Sequence[float]) -> None:
        """Compare the samples that met their contents for the first time with the others of the same round.

        Where the first meeting takes longer, new contents are drawn to be met. Raises LaunchError after
        `limits.enough` more such meetings than others: the variant keeps answers. A first meeting that takes longer
        than the median of the others, but not than the usual time, says nothing.
        """
        first, other = list[float](), list[float]()
        for number, time in zip(numbers, seconds, strict=True):
            (other if number in self.met else first).append(time)
            self.met.add(number)
        if not (first and other):
            return
        limits = self.limits
        if min(first) <= limits.slower * median(other) + limits.more:
            self.suspicions = max(self.suspicions - 1, 0)
        elif min(first) > limits.slower * limits.usual(other) + limits.more:
            self.suspicions += 1
        if self.suspicions == limits.enough:
            raise LaunchError(_stored(1e6 * min(first), 1e6 * median(other)))
        if self.suspicions:
            self.contents.one_more()

    def confirm(self, sample: Callable[[], float], measured: float, usual: Callable[[], float] | None = None) -> bool:
        """Time single runs on contents that the variant has never met, after all samples, whose median is `measured`.

        So an answer cannot be kept from some moment on, when all contents have been met. If a run takes longer, the
        machine may have become slow: `usual` takes such a sample as the others were, on contents that the variant
        knows, just before or after (without it `sample` does). Raises LaunchError where `limits.tries` runs in a row
        take longer, and longer than those beside them. False where there was no memory for such contents.
        """
        if not self.contents.last:
            return True
        limits, new, known = self.limits, list[float](), list[float]()

        def beside() -> None:
            known.append(self._timed(usual or sample, int(self.contents.rng.choice(sorted(self.met)))))

        while len(new) < limits.tries and (unmet := self.contents.unmet(self.met)) is not None:
            before = bool(new) and bool(self.contents.rng.integers(2))
            if before:
                beside()
            new.append(self._timed(sample, unmet))
            self.met.add(unmet)
            if new[-1] <= limits.slower * measured + limits.more_alone:
                return True
            if not before:
                beside()
        if not new:
            return False
        other = max(median(known), measured)
        if min(new) > limits.slower * other + limits.more_alone:
            raise LaunchError(_stored(1e6 * new[-1], 1e6 * other))
        return True

    def _timed(self, sample: Callable[[], float], number: int) -> float:
        """One sample on these contents."""
        self.due = number
        try:
            return sample()
        finally:
            self.due = None


def _stored(new: float, old: float) -> str:
    """What is said of a variant that keeps answers, from two times in microseconds."""
    unmet, met = numbers.three(new), numbers.three(old)
    return f"it reuses stored results: {unmet} \u00b5s for new inputs, {met} \u00b5s for inputs that it has seen"
