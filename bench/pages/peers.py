"""Ours beside the fastest peer: one row a kernel, size, dtype and kind of time, by `cudalab.results.rivals`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from cudalab.base import numbers
from cudalab.base.memo import kept
from cudalab.base.stats import FASTER, SAME, SLOWER, UNCLEAR, Ratio, over_all
from cudalab.report import columns
from cudalab.results import marks, rivals
from cudalab.results.record import Case, Results

KINDS = ("cold", "hot", "graph", "graph_cold", "api")  # `call` is of a launch without allocation: peers have none
VERDICTS = (FASTER, SAME, SLOWER, UNCLEAR)
UNEQUAL = "not on equal terms"


@dataclass(frozen=True)
class Group:
    """The cases of a size and dtype, with a kind of time that the file has."""

    run: Results
    cases: list[Case]
    kind: str

    def time(self, case: Case) -> str:
        """The median in µs with its marks."""
        return columns.microseconds(case, self.kind) + marks.signs(self.run, case, self.cases, self.kind)


@dataclass(frozen=True)
class Row(Group):
    """One comparison: `ratio` is how many times as fast ours is as the peer."""

    ours: Case
    peer: Case
    ratio: Ratio

    @property
    def verdict(self) -> str:
        """The lab's verdict, or UNEQUAL."""
        return self.ratio.verdict() if self.equal else UNEQUAL

    @property
    def equal(self) -> bool:
        """False for warm times of older files, in which a peer that allocates wrote to two outputs and ours to one."""
        warm, known = self.kind in ("hot", "graph"), self.peer.allocates is not None
        return known or not warm or columns.allocates(self.peer) == columns.allocates(self.ours)


@kept
def rows(run: Results, kind: str) -> list[Row]:
    """A row for each size and dtype of a file in which both sides have such a time; losses first."""
    found = ((cases, rivals.compared(run, cases, kind)) for cases in run.groups().values())
    rows = [Row(run, cases, kind, one.ours, one.rival, one.ratio) for cases, one in found if one]
    return worst_first(rows)


def uncompared(run: Results, kind: str) -> list[Group]:
    """The sizes and dtypes of a file that has such times of a rival, in which ours or every rival has none."""
    if not any(rivals.rival(run, cases, kind) for cases in run.groups().values()):
        return []
    there = {row.ours.group for row in rows(run, kind)}
    return [Group(run, cases, kind) for group, cases in run.groups().items() if group not in there]


def worst_first(found: Iterable[Row]) -> list[Row]:
    """Losses first, then the others; of both the slowest first."""
    return sorted(found, key=lambda row: (row.verdict != SLOWER, row.ratio.value))


def fastest(cases: list[Case], kind: str) -> Case:
    return min(cases, key=lambda case: case.median(kind) or inf)


def counts(found: Iterable[Row]) -> str:
    """Rows by verdict in the order of VERDICTS, such as "5 / 3 / 1 / 0"; "-" where none has a verdict."""
    verdicts = Counter(row.verdict for row in found if row.equal)
    return " / ".join(str(verdicts[verdict]) for verdict in VERDICTS) if verdicts else columns.NOT_MEASURED


def mean(found: Iterable[Row]) -> Ratio | None:
    """The geometric mean of the ratios that have a verdict; its interval is that of the measurement alone."""
    ratios = [row.ratio for row in found if row.equal]
    return over_all(ratios) if ratios else None


def said(mean: Ratio | None) -> str:
    """A mean with its interval, or "-"."""
    return numbers.with_ends(mean) if mean else columns.NOT_MEASURED
