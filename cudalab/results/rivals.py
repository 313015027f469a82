"""Ours beside the fastest rival of a group.

Ours is the entry that a call runs where the file says which one it is (it alone has an *api* time), else the fastest
entry. The rival is the fastest of those whose answer is right, in the first process; the other processes judge it. The
ratio is by rounds, as everywhere in the lab; kinds of time are never mixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cudalab.base.stats import Ratio
from cudalab.results import record
from cudalab.results.record import Case, Results

OURS = ("pycuda", "cupy_raw")  # they run the `.cu` on a GPU; of two that were timed the first counts
# Backends that run our code, or that are no rivals: the lab's other ways to the same `.cu`, and NumPy on the host.
NO_RIVALS = (*OURS, "pycuda_elementwise", "host", "numpy", record.COPY)


@dataclass(frozen=True)
class Comparison:
    """`ratio` is how many times as fast ours is as the rival."""

    ours: Case
    rival: Case
    ratio: Ratio


def ours(run: Results, cases: Sequence[Case], kind: str) -> Case | None:
    """Our entry that is compared, if one is right and has such a time."""
    for backend in OURS:
        mine = [case for case in timed(cases, kind) if case.backend == backend and not case.old]
        if mine:
            return run.fastest([case for case in mine if "api" in case.times] or mine, kind)
    return None


def rival(run: Results, cases: Sequence[Case], kind: str) -> Case | None:
    """The fastest rival, if one is right and has such a time."""
    others = [case for case in timed(cases, kind) if case.backend not in NO_RIVALS]
    return run.fastest(others, kind) if others else None


def compared(run: Results, cases: Sequence[Case], kind: str) -> Comparison | None:
    """The comparison of a group; None where one of the two has no such time."""
    mine, other = ours(run, cases, kind), rival(run, cases, kind)
    return Comparison(mine, other, run.ratio(other, mine, kind, chosen=True)) if mine and other else None


def timed(cases: Sequence[Case], kind: str) -> list[Case]:
    """Those that are right and have such a time."""
    return [case for case in cases if case.status == record.OK and case.times.get(kind)]
