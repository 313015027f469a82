"""Kernels, launches and operators of a run, counted by torch.profiler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cudalab.study.lab import Lab
from cudalab.tools.profile import events


def recorded(lab: Lab, run: Callable[[], object], runs: int = 1) -> events.Recording:
    """The recording of `runs` runs by torch.profiler."""
    lab.torch()
    return events.record(run, lab.synchronize, lab.cuda, runs)


def launches(lab: Lab, run: Callable[[], object], runs: int = 1) -> dict[str, float]:
    """Counts of one run: `kernels`, `launches` and `gpu_busy_s` on a GPU, `operators` on a CPU."""
    counts = recorded(lab, run, runs).counts()
    return {name: value for name, value in counts.items() if lab.cuda == (name != "operators")}


def busy(lab: Lab, run: Callable[[], object]) -> Callable[[], list[float]]:
    """A clock: seconds in which the GPU works in one run, without the gaps in which it waits for the host.

    For work with more launches than the driver's queue takes, which cannot be held. Each sample is a recording.
    """
    return lambda: [recorded(lab, run).counts()["gpu_busy_s"]]


@dataclass(frozen=True)
class Traffic:
    """Operators that a run dispatched, without views, and the bytes of all their inputs and outputs."""

    operators: int
    nbytes: int


def traffic(run: Callable[[], object]) -> Traffic:
    """What a run's operators read and write. For compiled functions this is the traffic of the original operators."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    seen: list[int] = []

    class Counting(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if not events.returns_a_view(func._schema):
                seen.append(sum(t.nbytes for t in tree_leaves((args, kwargs, result)) if hasattr(t, "nbytes")))
            return result

    with Counting():
        run()
    return Traffic(len(seen), sum(seen))
