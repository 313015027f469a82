"""What a run over several GPUs and its actors send each other: JSON, so that both ends check what they get."""

from __future__ import annotations

import msgspec

from cudalab.engine.messages import Ready, Setup
from cudalab.results.record import Case


class Order(msgspec.Struct):
    """What an actor needs before its first group. `kind`, `only`, `skip` and `hard` are of the run's session."""

    kind: str
    setup: Setup
    only: tuple[str, ...]
    skip: tuple[str, ...]
    hard: bool
    timeout: float | None  # seconds without progress; None: endless
    fresh: bool  # whether its compiler caches are empty
    threads: str = ""  # OMP_NUM_THREADS of the run; "": not set


class Opened(msgspec.Struct, tag=True):
    """The actor's GPU is open.

    `gpu` is its UUID, "" on a CPU; `count` processes do a group, `most` may do so. `memory`: free bytes of the host.
    """

    ready: Ready
    gpu: str
    host: str
    commit: str
    count: int
    most: int
    memory: int = 0


class Answer(msgspec.Struct, tag=True):
    """The rows of a group. `spent` is that of the actor since it began, as in `Results.wall`."""

    cases: list[Case]
    seconds: float
    spent: dict[str, float]
    warnings: list[str] = []


class Gone(msgspec.Struct, tag=True):
    """The actor cannot go on, or is no more."""

    reason: str


Report = Opened | Answer | Gone


class Identity(msgspec.Struct):
    """Which GPU a worker has: its UUID, "" on a CPU."""

    gpu: str = ""
