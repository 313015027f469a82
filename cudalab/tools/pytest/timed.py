"""What `cudalab_time` returns: medians with intervals, and ratios with intervals and verdicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cudalab import backends
from cudalab.base import globs, numbers
from cudalab.base.errors import InputError, unknown
from cudalab.base.stats import MIN_EFFECT, Ratio, Timing, flat
from cudalab.engine import plan
from cudalab.results import record
from cudalab.results.compare import HOST_EFFECT, Comparison, Pair
from cudalab.results.pytest_benchmark_file import statistics
from cudalab.results.record import Case, Results
from cudalab.tools.pytest.timings import WALL

MICRO = 1e6  # microseconds in a second
Absent = Callable[[str], BaseException]  # makes the exception for a time that there is not, from the reason


@dataclass(frozen=True)
class Speedup:
    """How many times as fast: the value, its 95 % interval, and FASTER, SAME, SLOWER or UNCLEAR."""

    value: float
    low: float
    high: float
    verdict: str
    disturbed: bool = False  # other programs kept the processors busy: the ratio is not that of the rows alone

    def __str__(self) -> str:
        found = Ratio(self.value, self.low, self.high, disturbed=self.disturbed)
        return f"{numbers.with_ends(found)} {self.verdict}"


class Stats(dict[str, Any]):
    """pytest-benchmark's statistics of all samples under its names, in seconds: `stats.median` or `stats["median"]`."""

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(f"no statistic named {name!r}; there are: {', '.join(self)}")
        return self[name]


class Row:
    """One variant: its times of one kind. Times are in microseconds; `stats` alone is in seconds."""

    def __init__(self, run: Results, case: Case, kind: str, absent: Absent) -> None:
        self.run = run  # the whole result, as a results file has it
        self.case = case  # this row of it, with every raw sample
        self.kind = kind  # of the times: cold, hot, graph, graph_cold, call, api; on a CPU wall
        self._absent = absent

    @property
    def label(self) -> str:
        """Return `backend` or `backend:entry`, such as `pycuda:gelu_vec`."""
        return self.case.label

    @property
    def median(self) -> float:
        """Median time of a run, in microseconds."""
        __tracebackhide__ = True
        return MICRO * self._timing.median

    @property
    def low(self) -> float:
        """Lower end of the median's 95 % interval, in microseconds."""
        __tracebackhide__ = True
        return MICRO * self._timing.interval[0]

    @property
    def high(self) -> float:
        """Upper end of the median's 95 % interval, in microseconds."""
        __tracebackhide__ = True
        return MICRO * self._timing.interval[1]

    @property
    def text(self) -> str:
        """Return the median with the digits that its interval supports, in microseconds."""
        __tracebackhide__ = True
        return numbers.supported(self.median, self._timing.width)

    @cached_property
    def stats(self) -> Stats:
        """min, max, mean, median, stddev, iqr, rounds and more, as pytest-benchmark names them, in seconds."""
        return Stats(statistics(flat(self._timing.rounds)))

    @property
    def parity(self) -> record.Parity | None:
        """How the output compares with the float64 reference: `max_ulp`, `rel_l2`, `rounded`."""
        return self.case.parity

    def ratio(self, other: str) -> Speedup:
        """How many times as fast this row is as `other`, a label such as `torch_eager`, from rounds taken side by side.

        A wall time has a verdict only from a factor of 2 on.
        """
        __tracebackhide__ = True
        base = self._other(other)
        if self.kind == "call" and (self.case.allocates or base.case.allocates):
            which = self.label if self.case.allocates else base.label
            raise InputError(f"a call of {which} allocates its result; compare api times: mode='api'")
        _ = self._timing, base._timing  # raises where there are none
        found = self.run.ratio(base.case, self.case, self.kind)
        least = HOST_EFFECT if self.kind == WALL else MIN_EFFECT
        return Speedup(found.value, found.low, found.high, found.verdict(least), found.disturbed)

    def _other(self, label: str) -> Row:
        __tracebackhide__ = True
        return Row(self.run, _find(self.run, label), self.kind, self._absent)

    @property
    def _timing(self) -> Timing:
        __tracebackhide__ = True
        if taken := self.run.timing(self.case, self.kind):
            return taken
        if self.case.status == record.SKIPPED:
            raise self._absent(f"{self.label} was skipped: {self.case.reason}")
        if self.run.machine.device == "cpu" and self.kind != WALL:
            raise self._absent(f"{self.kind} times need a GPU, and {self.run.no_gpu}")
        if not backends.by_name()[self.case.backend].timed:
            text = f"{self.label} is right, and not timed: on a CPU a .cu is checked, never timed"
            raise self._absent(text + self._other_rows())
        if not set(plan.modes_for(self.kind)) <= set(globs.split(self.run.options["modes"])):
            raise InputError(f"the run has no {self.kind} times; ask for them: cudalab_time(..., mode={self.kind!r})")
        why = "; ".join(self.case.notes) or f"it has {', '.join(self.case.times) or 'none'}"
        raise self._absent(f"no {self.kind} time of {self.label}: {why}")

    def _other_rows(self) -> str:
        """Return what to type for the time of another row."""
        return ""

    def __repr__(self) -> str:
        if not self.case.times.get(self.kind):
            return f"<{self.label}: {self.case.status}, no {self.kind} time>"
        ends = numbers.ends(self.low, self.high)
        return f"<{self.label}: {self.text} \u00b5s ({ends}), {self.kind}>"


class Timed(Row):
    """All rows of one call of `cudalab_time`. Its own numbers are those of the main row: the kernel's entry that was
    timed, and of several the one that a call of the kernel runs. `result["triton"]` is another row."""

    def __init__(
        self, run: Results, main: Callable[[Results], Case], kind: str, absent: Absent, extra_info: dict[str, Any],
        comparison: Comparison | None,
    ) -> None:  # fmt: skip
        self.run = run
        self.kind = kind
        self.comparison = comparison  # with the baseline; None: there is no baseline, or it lacks these rows
        self.extra_info = extra_info  # of the test; the saved rows get it as notes
        self._absent = absent
        self._main = main

    @cached_property
    def case(self) -> Case:  # type: ignore[override]
        return self._main(self.run)

    def _other_rows(self) -> str:
        labels = self.labels
        rows = f"; of another row: result[{labels[0]!r}] (timed: {', '.join(labels)})" if labels else ""
        return f"; the numbers of a result are those of the kernel's row{rows}"

    @property
    def labels(self) -> list[str]:
        """Of the rows that were timed, in the order of the run; also those of `["..."]` and `ratio`."""
        return [case.label for case in self.run.cases if case.times and case.status == record.OK]

    def __getitem__(self, label: str) -> Row:
        """The row of a label such as `pycuda:gelu_vec`, or of a backend or an entry that is in one row only."""
        __tracebackhide__ = True
        return self._other(label)

    def of(self, kind: str) -> Timed:
        """The same rows with another kind of time that the run has: `of("hot")`."""
        return Timed(self.run, self._main, kind, self._absent, self.extra_info, self.comparison)

    @property
    def pairs(self) -> list[Pair]:
        """The rows that the baseline has too, each with both times, the ratio and the verdict."""
        return [pair for pair in self.comparison.pairs if not pair.control] if self.comparison else []


def _find(run: Results, name: str) -> Case:
    """The row of a label, or of a backend or an entry that only one row has. Raises NotFound."""
    __tracebackhide__ = True
    rows = [case for case in run.cases if case.status != record.CEILING]
    for fits in (lambda c: c.label, lambda c: c.backend, lambda c: c.variant):
        found = [case for case in rows if fits(case) == name and case.status != record.SKIPPED]
        found = found or [case for case in rows if fits(case) == name]
        if len(found) == 1:
            return found[0]
    raise unknown("row", name, [case.label for case in rows])
