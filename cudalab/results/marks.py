"""What a reader must know of a time beside its number: the marks on it, and whether the machine was busy."""

from __future__ import annotations

from collections.abc import Iterable

from cudalab.base import numbers, stats
from cudalab.base.memo import kept
from cudalab.results import comparable, limit, record
from cudalab.results.record import Case, Results

FLOOR = 10  # a time below this many empty event pairs is mostly launch and timer
CEILING = 1.01  # a bandwidth this many times the copy's does not come from memory alone
NOISY = 0.1  # relative width of a median's interval above which the row is marked
# Why a ratio is printed as "?": see `Ratio.says_nothing`, which is the same for 2 times and for half as fast.
NO_RATIO = "the interval of the ratio is too wide, such as 0.8 to 1.6"
# Marks on a time, and their explanation below the table.
MARKS = {
    "~": f"below {FLOOR} x the time of an empty event pair: much of it is launch and timer, not the kernel",
    "^": "faster than a copy of as many bytes: more read than written, or part of it in cache",
    "!": "the GPU ran below its highest clock",
    "#": "the worker processes of the run disagree about this time by more than chance: it has several values",
    "?": f"after a time: imprecise, since its interval is wider than {100 * NOISY:.0f} %, its samples fall into two "
    f"groups, or its ratio is unknown. In place of a ratio: unknown, since {NO_RATIO}",
}


@kept
def signs(run: Results, case: Case, cases: list[Case], kind: str = "") -> str:
    """The MARKS on a time of a case: of `kind`, or the main one, which alone has `^` and is judged with its ratio."""
    main, copy = run.main_kind, ceiling(cases)
    kind = kind or main
    timing = case.timing(kind)
    if not timing:
        return ""
    floor_ = run.calibration.get("empty event pair")
    found = "~" if floor_ and kind == "cold" and timing.median < FLOOR * stats.median([floor_]) else ""
    best = copy.median(kind) if copy and kind == main else None
    above = best and case is not copy and timing.median * CEILING < best and not computes(run, cases)
    found += "^" if above and not found else ""
    on_gpu = not comparable.of_host(kind)
    found += "!" if on_gpu and (case.condition.get("throttled") or (copy and copy.condition.get("throttled"))) else ""
    found += "#" if timing.disagree else ""
    ratio = run.speedup(case, kind) if kind == main else None
    unknown = run.disturbed(kind) or (ratio is not None and ratio.says_nothing)
    rough = unknown or timing.width > NOISY or stats.bimodal(timing.rounds)
    return found + ("?" if rough else "")


def explained(borne: Iterable[str], disturbed: bool = False) -> list[str]:
    """A line for each of MARKS that is among those in `borne`; `disturbed`: some are there for a busy machine."""
    there = set("".join(borne))
    also = {"?": ". A busy machine is a reason for both"} if disturbed else {}
    return [f"{mark} {text}{also.get(mark, '')}." for mark, text in MARKS.items() if mark in there]


def busy(run: Results, then: str = "give no ratio and no verdict") -> str:
    """A warning where other programs kept the processors busy, and what `then` holds for the times; else empty."""
    host = [kind for kind in dict.fromkeys(k for c in run.cases for k in c.times) if comparable.of_host(kind)]
    if not run.busy or not host:
        return ""
    what = "times" if run.main_kind in host else f"{' and '.join(kind.replace('_', ' ') for kind in host)} times"
    return f"Machine busy: load {load_of(*run.busy)}: {what} are imprecise and {then}"


def load_of(load: float, cores: float) -> str:
    """Return a mean load of other programs in words."""
    on = f"{numbers.compact(cores)} core{'s' if cores > 1 else ''}"
    return f"{numbers.compact(load)} of other programs on {on}"


def computes(run: Results, cases: list[Case]) -> bool:
    """Whether the work of a group is arithmetic, as in a product of matrices, and not the movement of its bytes."""
    counted = [case for case in cases if case.flops]
    return bool(counted) and limit.computes(counted[0], run.machine)


@kept
def ceiling(cases: list[Case]) -> Case | None:
    """The row of the copy, if the group has one."""
    return next((c for c in cases if c.status == record.CEILING), None)
