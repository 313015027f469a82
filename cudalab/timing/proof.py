"""What a timed run cannot know beforehand: the contents of its inputs. And who judges what it left.

A kernel that finds its answer instead of computing it would look fast. So the inputs change between samples, every
output is poisoned before the clock starts, and each result is compared with the right one for those contents.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import exp, inf, log
from statistics import median
from typing import Any

import numpy as np

from cudalab.base import numbers
from cudalab.base.errors import LaunchError, out_of_memory
from cudalab.device.operands import Operands, Written

EARLY = 2  # contents that a variant may meet from its first sample on; it meets others late, one in a round
LATE = 0.5  # share of the rounds in which it does, as long as there are others
LATER = 3  # later meetings beside which a first one is judged
AGAIN = 4  # runs on the same contents beside which the last first meeting is judged
ENOUGH = 16  # samples that tell the noise
DEVIATIONS, LEAST, TICK = 4, 0.01, 0.25e-6  # the slack: standard deviations of the noise, at least a share, and seconds

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
    by_noise: bool = True  # whether the noise of the samples tells, too, what is slow
    alone: float = 0.93  # a run of a batch takes at least this share of a run alone, see `timing/alone.py`


GPU = Limits(slower=1.25, usual=median, enough=3, tries=8)
# Where the CPU's other programs delay any run, the first one with new contents or a later one.
CPU = Limits(slower=3.0, usual=max, enough=5, tries=12, more_alone=20e-6, by_noise=False, alone=0.1)


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
class Meetings:
    """How a variant's samples compare with the usual one of their round: those of late contents, and the noise."""

    first: dict[int, float] = field(default_factory=dict)  # logarithms of ratios, by contents
    later: dict[int, list[float]] = field(default_factory=dict)
    noise: list[float] = field(default_factory=list)

    def slack(self, seconds: float) -> float:
        """By which factor a time may exceed another one of about so many seconds by chance; inf: not known yet."""
        if len(self.noise) < ENOUGH:
            return inf
        deviation = 1.4826 * median(map(abs, self.noise))
        return exp(max(DEVIATIONS * deviation, LEAST)) + TICK / seconds

    def add(self, numbers: Sequence[int], seconds: Sequence[float], new: Collection[int], usual: float) -> None:
        """Keep what a round says, in which these contents are new; `usual`: the median time of the others."""
        for number, time in zip(numbers, seconds, strict=True):
            ratio = log(max(time, 1e-9) / usual)
            if number not in new:
                self.noise.append(ratio)
                self.later.setdefault(number, []).append(ratio)
            elif number >= EARLY:
                self.first[number] = ratio

    def judged(self) -> Iterator[float]:
        """By which factors first meetings took longer than LATER others with the same contents; each is told once."""
        known = [number for number in self.first if len(self.later.get(number, ())) >= LATER]
        for number in known if len(self.noise) >= ENOUGH else ():
            yield exp(self.first.pop(number) - median(self.later[number]))

    def leave_out(self, numbers: Collection[int]) -> None:
        """Do not judge these contents."""
        for number in numbers:
            self.first.pop(number, None)


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
    rounds: int = 0  # those that `meet` has had
    suspicions: int = 0
    due: int | None = None  # the contents of the next samples; None: they are drawn
    late: bool = False  # whether contents beyond EARLY wait for `late_meeting`
    meetings: Meetings = field(default_factory=Meetings)
    _among: tuple[tuple[int, int], list[int]] = field(default_factory=lambda: ((0, 0), []))

    def change(self, operands: Operands | None = None) -> int:
        """Load other contents, or the same ones anew; returns their number."""
        number = self.due
        if number is None:
            usual = self._usual()
            number = usual[int(self.contents.rng.integers(len(usual)))]
        self.contents.load(number, operands)
        return number

    def _usual(self) -> Sequence[int]:
        """The contents that samples have, if no others are due. A graph asks once for each of its runs."""
        if not self.late:
            return range(self.contents.count)
        early, (known, usual) = min(EARLY, self.contents.count), self._among
        if known != (early, len(self.met)):  # what was met stays so
            usual = sorted(self.met.union(range(early)))
            self._among = (early, len(self.met)), usual
        return usual

    def late_meeting(self, samples: int) -> tuple[int, int] | None:
        """At which sample of a round the variant meets which contents for the first time; None: it meets none.

        Not at the first sample, which other variants disturb, nor in the first round, in which results are compared.
        """
        unmet = set(range(EARLY, self.contents.count)).difference(self.met)
        if samples < 2 or not self.rounds or not unmet or self.contents.rng.random() >= LATE:
            return None
        return int(self.contents.rng.integers(1, samples)), min(unmet)

    def known(self) -> int:
        """Load contents that the variant has met, others than those that are due; returns their number."""
        number = int(self.contents.rng.choice(sorted(self.met - {self.due}) or sorted(self.met)))
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
        than the median of the others, but not than the usual time, says nothing. That with late contents is also
        compared with the later meetings with the same contents.
        """
        self.rounds += 1
        first, other, new = list[float](), list[float](), set[int]()
        for number, time in zip(numbers, seconds, strict=True):
            (other if number in self.met else first).append(time)
            new |= {number} - self.met
            self.met.add(number)
        if not other:
            return
        limits, usual, late = self.limits, max(median(other), 1e-9), self.late and self.limits.by_noise
        if late:
            self.meetings.add(numbers, seconds, new, usual)
        slower = list(self.meetings.judged())
        if first and min(first) > limits.slower * limits.usual(other) + limits.more:
            slower.append(min(first) / usual)
            self.suspicions += 1
            self.meetings.leave_out(new)
        elif slower:
            self.suspicions = max(self.suspicions + (1 if max(slower) > self.meetings.slack(usual) else -1), 0)
        elif first and not late and min(first) <= limits.slower * usual + limits.more:
            self.suspicions = max(self.suspicions - 1, 0)
        if self.suspicions >= limits.enough:
            raise LaunchError(_stored(1e6 * max(slower, default=1.0) * usual, 1e6 * usual))
        left = late and self.contents.count > len(self.met)  # contents that wait to be met
        if self.suspicions and (first or slower) and not left:
            self.contents.one_more()

    def confirm(self, sample: Callable[[], float], measured: float, usual: Callable[[], float] | None = None) -> bool:
        """Time single runs on contents that the variant has never met, after all samples, whose median is `measured`.

        So an answer cannot be kept from some moment on, when all contents have been met. If a run takes longer, the
        machine may have become slow: `usual` takes such a sample as the others were, on contents that the variant
        knows, just before or after (without it `sample` does). Where the slack is that of the noise, the run is also
        compared with others on the same contents. Raises LaunchError where `limits.tries` runs in a row take longer,
        and longer than those beside them. False where there was no memory for such contents.
        """
        if not self.contents.last:
            return True
        limits, new, known, stored = self.limits, list[float](), list[float](), list[bool]()

        def beside() -> None:
            known.append(self._timed(usual or sample, int(self.contents.rng.choice(sorted(self.met)))))

        while len(new) < limits.tries and (unmet := self.contents.unmet(self.met)) is not None:
            before = bool(new) and bool(self.contents.rng.integers(2))
            if before:
                beside()
            new.append(self._timed(sample, unmet))
            self.met.add(unmet)
            stored.append(limits.by_noise and self._is_stored(sample, unmet, new[-1], measured))
            if new[-1] <= limits.slower * measured + limits.more_alone and not stored[-1]:
                return True
            if not before:
                beside()
        if not new:
            return False
        other = max(median(known), measured)
        if min(new) > limits.slower * other + limits.more_alone or (all(stored) and len(new) == limits.tries):
            raise LaunchError(_stored(1e6 * new[-1], 1e6 * other))
        return True

    def _is_stored(self, sample: Callable[[], float], number: int, first: float, measured: float) -> bool:
        """Say whether a first meeting took longer than the others, and than further ones with the same contents."""
        slack = self.meetings.slack(measured)
        if first <= slack * measured:
            return False
        return first > slack * min(self._timed(sample, number) for _ in range(AGAIN))

    def _timed(self, sample: Callable[[], float], number: int) -> float:
        """Return one sample on these contents."""
        with self.on(number):
            return sample()

    @contextmanager
    def on(self, number: int) -> Iterator[None]:
        """What changes contents inside takes these."""
        self.due = number
        try:
            yield
        finally:
            self.due = None


def _stored(new: float, old: float) -> str:
    """What is said of a variant that keeps answers, from two times in microseconds."""
    unmet, met = numbers.three(new), numbers.three(old)
    return f"it reuses stored results: {unmet} \u00b5s for new inputs, {met} \u00b5s for inputs that it has seen"
