"""What all groups of a worker share: the device, what to time and how long, and where progress is told."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

from cudalab.device.protocol import Device
from cudalab.engine.cause import Fault
from cudalab.engine.messages import Glimpse, Step
from cudalab.engine.rows import Defined, said
from cudalab.engine.selection import Selection
from cudalab.results.record import Parity
from cudalab.spec.kernel import Arrays

BEGIN, RELEASE, WAIT = Step("", "start"), "releasing the arrays", "waiting for its turn to be timed"
FEWEST = 4  # rounds that a process takes at least, if the run as a whole asks for as many


class ContextLost(BaseException):
    """A CUDA error after which every call in this process fails.

    It is no Exception, so that no handler of one variant's errors catches it.
    """

    def __init__(self, step: Step, reason: str) -> None:
        super().__init__(f"{step}: {reason}")
        self.step, self.reason = step, reason


@dataclass
class Job:
    """The shared state of a run. `engine/kernel_round.py` measures kernels with it, `study/engine.py` studies."""

    device: Device
    selection: Selection
    modes: tuple[str, ...]  # of timing; (): check only
    seed: int
    budget: float  # seconds of sampling for each variant
    progress: Callable[[Step], None]  # told before each step, so that a crash or a hang is blamed on the right one
    wall: dict[str, float] = field(default_factory=dict)  # seconds by phase
    order: str = "shuffled"
    step: Step = BEGIN  # the last that was told
    glimpse: Callable[[Mapping[str, Glimpse]], None] = lambda found: None  # gets preliminary numbers
    processes: int = 1  # of the run; `budget` is for this one
    process: int = 0  # the number of this one
    # Called when all is ready to be timed, with the labels of the variants without times; returns when no other process
    # works, with those to leave out.
    turn: Callable[[tuple[str, ...]], Collection[str]] = lambda bad: ()
    named: tuple[str, ...] = ()  # backends whose failure is an error, since the user names them
    left_out: Mapping[str, str] = field(default_factory=dict)  # backends that have no rows, and why
    raced: dict[str, dict[str, Fault]] = field(default_factory=dict)  # by file of a spec and variant
    wrong: set[tuple[str, str]] = field(default_factory=set)  # file of a spec, and a variant that failed
    known: dict[str, Parity] = field(default_factory=dict)  # verdicts on outputs, see `messages.Done`
    unloaded: Mapping[str, str] = field(default_factory=dict)  # variants not to be measured under load, and why
    made: Sequence[tuple[Arrays, Arrays]] = ()  # contents of the group at work, and what is right, made ahead

    @property
    def order_seed(self) -> int:
        """Seed of the order of the rounds, which differs between processes; the inputs come from `seed`."""
        return self.seed + self.process

    def share(self, rounds: int) -> int:
        """This process's share of the least number of rounds of the run."""
        return max(min(rounds, FEWEST), -(-rounds // self.processes))

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time spent inside to `wall[name]`."""
        start = perf_counter()
        try:
            yield
        finally:
            self.wall[name] = self.wall.get(name, 0.0) + perf_counter() - start

    def at(self, step: Step) -> None:
        """Tell what is done next."""
        self.step = step
        self.progress(step)

    def alive(self) -> None:
        """Tell the present step again: a sign of life during a step that is longer than a worker may be silent."""
        self.progress(self.step)

    def wait(self, group: object, bad: tuple[str, ...]) -> Collection[str]:
        """Wait until it is this process's turn; see `turn`."""
        self.at(Step(str(group), WAIT))
        return self.turn(bad)

    def survived(self, group: Defined, error: Exception | None = None) -> None:
        """Raise ContextLost if the device does not work any more; `error` is what showed it."""
        if not self.device.alive():
            raise ContextLost(self.step, said(error, group) if error else "the device no longer answers")

    def release(self, group: object) -> None:
        """Free the arrays of a group, unless the device is lost."""
        if self.device.alive():
            self.at(Step(str(group), RELEASE))
            self.device.release()
            if self.device.kind == "cuda":  # results of libraries and graphs that still hold the GPU's memory
                gc.collect()
