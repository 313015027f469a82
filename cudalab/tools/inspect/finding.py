"""What inspection finds out about an entry: a record for each of its launches, and their sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cudalab.spec.kernel import Shape
from cudalab.tools.inspect.bounds import Bounds, Occupancy
from cudalab.tools.inspect.cards import Card
from cudalab.tools.inspect.compilers import Resources
from cudalab.tools.inspect.instruction_mix import Mix
from cudalab.tools.inspect.sass import Code
from cudalab.tools.inspect.thread_path import Path
from cudalab.tools.inspect.traced_launch import TracedLaunch


@dataclass(frozen=True)
class Inspected:
    """A launch of an entry for one dtype and architecture at one size. Times are in seconds."""

    kernel: str
    entry: str
    dtype: str
    architecture: str
    size: str
    shape: Shape
    traced: TracedLaunch
    resources: Resources
    occupancy: Occupancy
    mix: Mix
    path: Path
    code: Code
    text: str  # of the `.cu`
    digest: str  # SHA-256 of the `.cu` and its headers
    card: Card | None = None
    bounds: Bounds | None = None
    measured: float | None = None  # cold median of the entry in the results
    remark: str = ""  # about the results or the launch parameters; shown as the last hint
    sentence: str = ""
    hints: tuple[str, ...] = ()

    @property
    def step(self) -> str:
        """Return the launch among those of its entry, such as "1 partial_sums"; "" of an entry with one launch."""
        return f"{self.traced.number} {self.traced.launch.entry}" if self.traced.of > 1 else ""

    @property
    def name(self) -> str:
        """Such as "sum", and "sum, launch 1 of 2 (partial_sums)"."""
        if not self.step:
            return self.entry
        return f"{self.entry}, launch {self.traced.number} of {self.traced.of} ({self.traced.launch.entry})"

    @property
    def elements(self) -> float:
        """Elements of the largest array per thread."""
        return self.traced.elements / (self.traced.blocks * self.traced.threads)

    @property
    def instructions(self) -> float:
        """Executed instructions per element."""
        return self.mix.total / self.elements

    @property
    def bytes(self) -> float:
        """Bytes per element that a launch must move: each input read once, each output written once."""
        return self.traced.nbytes / self.traced.elements

    @property
    def intensity(self) -> float:
        """Floating-point operations per byte."""
        return self.mix.flops / self.elements / self.bytes

    @property
    def seconds(self) -> Mapping[str, float]:
        """The least times by resource; none without a card."""
        return self.bounds.seconds if self.bounds else {}

    @property
    def predicted(self) -> float | None:
        return self.bounds.predicted if self.bounds else None

    @property
    def ratio(self) -> float | None:
        """Measured time over predicted time, of an entry with one launch."""
        return self.measured / self.predicted if self.measured and self.predicted and not self.step else None


@dataclass(frozen=True)
class Whole:
    """An entry of several launches, which run one after another: what adds up. Times are in seconds."""

    launches: tuple[Inspected, ...]

    @property
    def elements(self) -> int:
        """Of the largest array that a launch takes."""
        return max(one.traced.elements for one in self.launches)

    @property
    def bytes(self) -> float:
        """Bytes per element that the launches must move."""
        return sum(one.traced.nbytes for one in self.launches) / self.elements

    @property
    def intensity(self) -> float:
        """Floating-point operations per byte."""
        return self.per_element(lambda one: one.mix.flops) / self.bytes

    @property
    def instructions(self) -> float:
        """Executed instructions per element."""
        return self.per_element(lambda one: one.mix.total)

    def per_element(self, count: Callable[[Inspected], float]) -> float:
        """What each thread of a launch counts, over all threads of all launches, per element."""
        threads = (one.traced.blocks * one.traced.threads for one in self.launches)
        return sum(n * count(one) for n, one in zip(threads, self.launches, strict=True)) / self.elements

    @property
    def seconds(self) -> dict[str, float]:
        """The least times by resource, each over all launches."""
        found: dict[str, float] = {}
        for one in self.launches:
            for name, seconds in one.seconds.items():
                found[name] = found.get(name, 0.0) + seconds
        return found

    @property
    def predicted(self) -> float | None:
        """Return the least time, the sum over the launches; None where one is not known."""
        times = [one.predicted for one in self.launches]
        return None if None in times else sum(filter(None, times))

    @property
    def longest(self) -> Inspected | None:
        """The launch that takes most of the predicted time; None without a card."""
        found = max(self.launches, key=lambda one: one.predicted or 0.0)
        return found if found.predicted else None

    @property
    def measured(self) -> float | None:
        return self.launches[0].measured

    @property
    def ratio(self) -> float | None:
        """Measured time over predicted time."""
        return self.measured / self.predicted if self.measured and self.predicted else None


def wholes(found: Sequence[Inspected]) -> list[Inspected | Whole]:
    """The findings of `inspect` in their order, where the launches of an entry are followed by their sum."""
    shown: list[Inspected | Whole] = []
    for i, one in enumerate(found):
        shown.append(one)
        if one.step and one.traced.last:
            mine = (other for other in found[: i + 1] if _of(other) == _of(one))
            shown.append(Whole(tuple(mine)))
    return shown


def _of(one: Inspected) -> tuple[object, ...]:
    return one.kernel, one.size, one.dtype, one.architecture, one.entry
