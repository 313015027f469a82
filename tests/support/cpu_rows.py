"""The rows of a group as a worker on the CPU would send them, made in this process."""

from __future__ import annotations

from collections.abc import Collection

from cudalab.device.cpu import Cpu
from cudalab.engine.groups import Group
from cudalab.engine.job import Job
from cudalab.engine.kernel_round import cases
from cudalab.engine.selection import Selection
from cudalab.results.record import Case


def cpu_rows(group: Group, *only: str, modes: Collection[str] = (), seed: int = 0) -> list[Case]:
    """Rows of the variants that match `only`, or of all; timed for ten milliseconds each if there are `modes`."""
    return list(cases(Job(Cpu(), Selection(only=only), tuple(modes), seed, 0.01, lambda step: None), group))
