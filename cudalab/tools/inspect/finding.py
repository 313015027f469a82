"""What inspection finds out about one entry."""

from __future__ import annotations

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
    """One entry for one dtype and architecture at one size. Times are in seconds."""

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
    measured: float | None = None  # cold median in the results
    remark: str = ""  # about the results or the launch parameters; shown as the last hint
    sentence: str = ""
    hints: tuple[str, ...] = ()

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
        """Bytes per element that a launch must move: inputs once, the output once."""
        return self.traced.nbytes / self.traced.elements

    @property
    def intensity(self) -> float:
        """Floating-point operations per byte."""
        return self.mix.flops / self.elements / self.bytes

    @property
    def ratio(self) -> float | None:
        """Measured time over predicted time."""
        return self.measured / self.bounds.predicted if self.measured and self.bounds else None
