"""The rows of a group as a worker would send them, made in this process."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from cudalab.device.cpu import Cpu
from cudalab.engine.groups import Group
from cudalab.engine.job import Job
from cudalab.engine.kernel_round import cases
from cudalab.engine.selection import Selection
from cudalab.results.record import Case


def rows(
    device: Any, group: Group, *only: str, modes: Collection[str] = (), seed: int = 0, budget: float = 0.01,
    progress: Any = lambda step: None, skip: Collection[str] = (), omit: Collection[str] = (), **more: Any,
) -> list[Case]:  # fmt: skip
    """Rows of the variants that match `only`, or of all; timed for `budget` seconds each if there are `modes`."""
    selection = Selection(only=only, skip=tuple(skip))
    return list(cases(Job(device, selection, tuple(modes), seed, budget, progress, **more), group, omit=omit))


def cpu_rows(group: Group, *only: str, **how: Any) -> list[Case]:
    """The same on the CPU."""
    return rows(Cpu(), group, *only, **how)
