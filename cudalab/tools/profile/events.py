"""Count what torch.profiler recorded."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from cudalab.base.errors import InputError
from cudalab.base.files import place
from cudalab.device.activity import (  # some names are for modules that import them from here
    AN_OPERATOR,
    COPY,
    DEVICE_KINDS,
    KERNEL,
    LABEL,
    LAUNCH,
    OPERATOR,
    OTHER,
    Event,
    event,
    profiler,
    raw,
)

__all__ = [
    "COPY", "DEVICE_KINDS", "KERNEL", "LABEL", "LAUNCH", "OPERATOR", "OTHER", "Event", "Recording", "Row", "event",
    "free", "profiler", "raw", "record", "returns_a_view",
]  # fmt: skip

_MARKS = (b'"schemaVersion"', b'"traceEvents"')  # one of them is in the first lines of a Chrome trace


@dataclass(frozen=True)
class Row:
    """One line of a table: a kernel's or an operator's name, and its number and seconds in a run."""

    name: str
    count: float
    seconds: float


@dataclass
class Recording:
    """The events of `runs` runs. All counts are averages per run."""

    events: list[Event]
    runs: int = 1
    cuda: bool = False
    write: Callable[[str], object] = field(default=lambda path: None)  # a Chrome trace, to a file

    def counts(self) -> dict[str, float]:
        """`operators` (top-level, without views), and on a GPU `kernels`, `launches`, `gpu_busy_s`.

        Each item that the host puts into a queue is a launch: a kernel, a copy or fill, or a graph of many kernels.
        """
        found = {"operators": len(self.operators()) / self.runs}
        if self.cuda:
            done = self._of(*DEVICE_KINDS)
            found["kernels"] = len(self._of(KERNEL)) / self.runs
            found["launches"] = len({e.correlation or (e.name, e.start) for e in done}) / self.runs
            found["gpu_busy_s"] = _covered(done) * 1e-9 / self.runs
        return found

    def operators(self) -> list[Event]:
        """Operators that no other operator called, without those that only return another view of their input."""
        top = [e for e, parents in _nested(self._of(OPERATOR)) if not parents]
        return [e for e in top if not _is_view(e.name)]

    def shares(self, labels: Iterable[str]) -> dict[str, float]:
        """Each label's share of the time of all labels; on a GPU, of the device time of what they launched.

        Work belongs to the label in whose span it was launched, on any thread: autograd has one of its own.
        """
        spans = {name: [(e.start, e.end) for e in self._of(LABEL) if e.name == name] for name in labels}
        taken = dict.fromkeys(spans, 0.0)
        if self.cuda:
            begun = {e.correlation: e.start for e in self._of(LAUNCH)}
            for event in self._of(*DEVICE_KINDS):
                if name := _inside(spans, begun.get(event.correlation)):
                    taken[name] += event.end - event.start
        else:
            taken = {name: float(sum(end - start for start, end in found)) for name, found in spans.items()}
        total = sum(taken.values())
        return {name: value / total for name, value in taken.items()} if total else {}

    def top(self, most: int = 10) -> list[Row]:
        """The names that take the longest: kernels and copies on a GPU, operators by their own time on a CPU."""
        if self.cuda:
            own = [(e.name, e.end - e.start) for e in self._of(*DEVICE_KINDS)]
        else:
            own = _own_times(self._of(OPERATOR))
        seconds: dict[str, float] = defaultdict(float)
        for name, taken in own:
            seconds[name] += taken * 1e-9 / self.runs
        times = Counter(name for name, _ in own)
        rows = [Row(name, times[name] / self.runs, seconds[name]) for name in seconds]
        return sorted(rows, key=lambda row: -row.seconds)[:most]

    def _of(self, *kinds: str) -> list[Event]:
        return [e for e in self.events if e.kind in kinds]


def free(target: str) -> Path:
    """The path for a trace. Raises InputError if it cannot be written, or is a file that is not a trace."""
    path = place(target)
    if path.exists() and path.stat().st_size:
        with path.open("rb") as file:
            head = file.read(4096)
        if not any(mark in head for mark in _MARKS):
            raise InputError(f"will not replace {path}, which is not a Chrome trace; give another name")
    return path


def record(run: Callable[[], object], synchronize: Callable[[], object], cuda: bool, runs: int = 1) -> Recording:
    """Call `run` so many times under torch.profiler, and `synchronize` at the end, so that nothing is missing."""
    synchronize()
    with raw(cuda) as seen:
        for _ in range(runs):
            run()
        synchronize()
    events = [event(e) for e in seen.profiler.kineto_results.events()]
    return Recording(events, runs, cuda, seen.export_chrome_trace)


def _nested(events: list[Event]) -> list[tuple[Event, list[Event]]]:
    """Return each event with the events of its thread that enclose it, the outermost first."""
    found: list[tuple[Event, list[Event]]] = []
    open_: dict[int, list[Event]] = defaultdict(list)
    for one in sorted(events, key=lambda e: (e.start, -e.end)):
        parents = open_[one.thread]
        while parents and parents[-1].end <= one.start:
            parents.pop()
        found.append((one, list(parents)))
        parents.append(one)
    return found


def _own_times(events: list[Event]) -> list[tuple[str, int]]:
    """The name of each event, and its ns without the events inside it."""
    nested = _nested(events)
    inner: dict[int, int] = defaultdict(int)
    for one, parents in nested:
        if parents:
            inner[id(parents[-1])] += one.end - one.start
    return [(one.name, max(one.end - one.start - inner[id(one)], 0)) for one, _ in nested]


def _covered(events: list[Event]) -> int:
    """The ns in which at least one event was running: kernels may overlap."""
    total, until = 0, 0
    for one in sorted(events, key=lambda e: e.start):
        total += max(one.end - max(one.start, until), 0)
        until = max(until, one.end)
    return total


def _inside(spans: Mapping[str, list[tuple[int, int]]], when: int | None) -> str:
    if when is None:
        return ""
    return next((name for name, found in spans.items() if any(start <= when <= end for start, end in found)), "")


@cache
def _is_view(name: str) -> bool:
    """Whether every overload of an operator may return its input's own memory, by its schemas."""
    import torch

    schemas = torch._C._jit_get_schemas_for_operator(name) if AN_OPERATOR.fullmatch(name) else []
    return bool(schemas) and all(returns_a_view(schema) for schema in schemas)


def returns_a_view(schema: Any) -> bool:
    return any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
