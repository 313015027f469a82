"""What a search for launch parameters finds, and the verdicts on its finalists."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from cudalab.base.errors import CudalabError, InputError
from cudalab.base.stats import FASTER, Ratio, over_all
from cudalab.engine.groups import Group
from cudalab.results import record
from cudalab.results.record import Case, Results
from cudalab.spec.kernel import Kernel
from cudalab.timing.rounds import DIGITS
from cudalab.tools.tune.kernel_tuner import Tried, label

Parameters = dict[str, int]


@dataclass(frozen=True)
class Finalist:
    """A configuration that the lab has timed beside the default; or the default itself."""

    parameters: Parameters
    cases: list[Case]  # its rows, one a size
    ratios: list[Ratio]  # how many times faster than the default it is, by size
    total: Ratio  # over all sizes
    verdict: str

    def seconds(self, size: int, kind: str) -> float:
        """Median at the size number `size`."""
        return round(self.cases[size].median(kind) or 0.0, DIGITS)

    @property
    def wrong(self) -> str:
        """Why it has no time; "": it has."""
        return next((f"{c.status} at {c.size}: {c.reason}" for c in self.cases if c.status != record.OK), "")


@dataclass
class Tuning:
    """What was found for one dtype of an entry."""

    kernel: Kernel
    entry: str
    dtype: str
    kind: str  # of time
    run: Results  # of the finalists, with every sample
    ranking: list[Tried] = field(default_factory=list)  # by Kernel Tuner's clock, the fastest first
    excluded: list[Tried] = field(default_factory=list)  # wrong, or not to be compiled or launched
    finalists: list[Finalist] = field(default_factory=list)  # the default first
    kept: Path | None = None  # the file that has the winner

    @property
    def winner(self) -> Finalist:
        """The fastest of those that are surely faster than the default; else the default."""
        faster = [f for f in self.finalists if not f.wrong and f.verdict == FASTER]
        return max(faster, key=lambda f: f.total.value, default=self.finalists[0])


def joined(parts: Sequence[Sequence[Tried]], default: Parameters) -> list[Tried]:
    """A search at one size that GPUs have shared, as if the first of them had done all.

    Times of different GPUs are not compared: what counts is how each is to the default's time on the same GPU. Raises
    CudalabError where a GPU has no time of the default.
    """
    if len(parts) == 1:
        return list(parts[0])
    found, base = list[Tried](), 0.0
    for part in parts:
        own = next((t for t in part if t.parameters == default), Tried(default, 0.0, "not timed"))
        if own.seconds <= 0:
            raise CudalabError(f"the default is {own.reason or 'not timed'}, so that GPUs cannot share the search")
        base = base or own.seconds
        found += [replace(t, seconds=t.seconds * base / own.seconds) for t in part if t is not own or not found]
    return found


def ranked(searches: Sequence[Sequence[Tried]]) -> tuple[list[Tried], list[Tried]]:
    """(configurations that have a time at every size, the fastest first; the others), of searches at several sizes.

    What counts is the geometric mean of the times, so that each size has the same weight.
    """
    by_key: dict[tuple[int, ...], list[Tried]] = {}
    for tried in (t for search in searches for t in search):
        by_key.setdefault(tuple(tried.parameters.values()), []).append(tried)
    good, bad = list[Tried](), list[Tried]()
    for found in by_key.values():
        times = [t.seconds for t in found if t.seconds > 0]
        missing = "" if len(times) == len(searches) else "has not been timed"
        reason = next((t.reason for t in found if t.reason), missing)
        mean = math.exp(sum(map(math.log, times)) / len(times)) if times else 0.0
        (bad if reason else good).append(Tried(found[0].parameters, mean, reason))
    return sorted(good, key=lambda t: t.seconds), bad


def judged(
    run: Results, groups: Sequence[Group], entry: str, forms: Sequence[Parameters], kind: str, min_effect: float
) -> list[Finalist]:
    """The forms with their times and verdicts, the default first. Raises InputError where there is no such time."""
    rows = {(case.size, case.label): case for case in run.cases}
    found = []
    for parameters in forms:
        cases = [rows[group.size, label(entry, parameters)] for group in groups]
        base = [rows[group.size, label(entry, forms[0])] for group in groups]
        for case in cases:
            if case.status == record.OK and not case.times.get(kind):
                raise InputError(f"{case.label} has no {kind} time: {'; '.join(case.notes) or 'choose another --kind'}")
        if any(case.status != record.OK for case in (*cases, *base)):
            found.append(Finalist(dict(parameters), cases, [], Ratio(1, 1, 1), ""))
            continue
        ratios = [run.ratio(was, now, kind) for was, now in zip(base, cases, strict=True)]
        total = over_all(ratios)
        found.append(Finalist(dict(parameters), cases, ratios, total, total.verdict(min_effect)))
    return found
