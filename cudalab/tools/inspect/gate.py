"""Two inspections compared: which figures of the code became worse. It needs no GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf

from cudalab.tools.inspect.kept import Inspection, Row

WORSE, BETTER, SAME = "WORSE", "BETTER", "SAME"
NOT_COMPARABLE = 4  # the exit code, as that of a comparison of times

# By name: the figure of a row, None where it has none. A smaller one is better.
FIGURES: dict[str, Callable[[Row], float | None]] = {
    "registers": lambda row: row.registers,
    "spills": lambda row: row.spills,
    "shared memory": lambda row: row.shared,
    "instructions per element": lambda row: row.instructions,
    "predicted time": lambda row: row.predicted,
}


@dataclass(frozen=True)
class Change:
    """One figure of one entry in both inspections."""

    row: Row  # of the new one
    figure: str
    old: float
    new: float
    tolerance: float

    @property
    def share(self) -> float:
        """Return the change relative to the old value; infinite from 0."""
        return (self.new - self.old) / self.old if self.old else inf if self.new else 0.0

    @property
    def verdict(self) -> str:
        """WORSE or BETTER where the change is larger than the tolerance."""
        return WORSE if self.share > self.tolerance else BETTER if self.share < -self.tolerance else SAME


@dataclass(frozen=True)
class Gate:
    """What a comparison of two inspections found."""

    changes: list[Change]
    tolerance: float
    differences: list[str]  # that forbid a comparison
    gone: list[str]  # entries that only the old one has
    added: list[str]  # entries that only the new one has
    forced: bool = False

    @property
    def refusal(self) -> str:
        """Why there is no verdict; empty where there is one."""
        if self.differences and not self.forced:
            return "not comparable: " + "; ".join(self.differences)
        return "" if self.changes else "no entry is in both files at the same size, dtype and architecture"

    @property
    def counts(self) -> dict[str, int]:
        verdicts = [change.verdict for change in self.changes]
        return {verdict: verdicts.count(verdict) for verdict in (WORSE, BETTER, SAME)}

    @property
    def exit_code(self) -> int:
        """0: nothing is worse; 1: something is; NOT_COMPARABLE."""
        return NOT_COMPARABLE if self.refusal else int(self.counts[WORSE] > 0)


def compare(old: Inspection, new: Inspection, tolerance: float, force: bool = False) -> Gate:
    """Every figure of the entries that both have, with the differences that forbid it."""
    was, now = ({row.key: row for row in found.rows} for found in (old, new))
    both = [(was[key], row) for key, row in now.items() if key in was]
    changes = [change for pair in both for change in _changes(*pair, tolerance)]
    gone, added = ([" ".join(key) for key in a if key not in b] for a, b in ((was, now), (now, was)))
    return Gate(changes, tolerance, [*_differences(old, new, both)], gone, added, force)


def _changes(old: Row, new: Row, tolerance: float) -> Iterator[Change]:
    for name, figure in FIGURES.items():
        before, after = figure(old), figure(new)
        if before is not None and after is not None:
            yield Change(new, name, before, after, tolerance)


def _differences(old: Inspection, new: Inspection, both: list[tuple[Row, Row]]) -> Iterator[str]:
    if old.nvcc != new.nvcc:
        yield f"nvcc {old.nvcc} -> {new.nvcc}"
    for what, a, b in dict.fromkeys(("card", a.card, b.card) for a, b in both if a.card != b.card):
        yield f"{what} {a or 'none'} -> {b or 'none'}"
    rates = dict.fromkeys((a.memory, b.memory) for a, b in both if a.card == b.card and a.memory != b.memory)
    for before, after in rates:
        yield f"rate of the memory {before / 1e9:,.0f} -> {after / 1e9:,.0f} GB/s (by --results or the data sheet)"
