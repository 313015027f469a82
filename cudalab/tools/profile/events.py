"""Record work with torch.profiler as plain events, and count them.

On a GPU it sees every kernel of the process by CUPTI, whichever library launched it: torch, Triton, PyCUDA or CuPy.
"""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from cudalab.base.errors import InputError
from cudalab.base.files import place
from cudalab.tools.profile.found import COMPILED

KERNEL, COPY, LAUNCH, OPERATOR, LABEL, OTHER = "kernel", "copy", "launch", "operator", "label", "other"
DEVICE_KINDS = (KERNEL, COPY)  # what the GPU does; COPY: copies and fills

_OPERATOR = re.compile(r"(?!autograd::)\w+::\w+")
_MARKS = (b'"schemaVersion"', b'"traceEvents"')  # one of them is in the first lines of a Chrome trace
_LAUNCH = re.compile(r"cu(da)?(Graph)?(Launch|Memcpy|Memset).*")
_COPY = re.compile(r"Mem(cpy|set)\b.*")
_TYPES = {"kernel": KERNEL, "gpu_memcpy": COPY, "gpu_memset": COPY}  # the names of newer releases of torch


@dataclass(frozen=True)
class Event:
    """One event, with times in ns on one clock. `correlation` joins a launch with its work on the GPU."""

    name: str
    kind: str
    start: int
    end: int
    thread: int = 0
    correlation: int = 0


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
            raise InputError(f"will not replace {path}, which is no Chrome trace; give another name")
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


@contextmanager
def raw(cuda: bool, **options: bool) -> Iterator[Any]:
    """`profiler` for raw events only: to make torch's own events takes longer than the work."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Profiler clears events")  # after each cycle; there is one
        with profiler(cuda, acc_events=False, **options) as seen:
            yield seen


def profiler(cuda: bool, acc_events: bool = True, **options: bool) -> Any:
    """torch.profiler of host and device, as a context manager; `options` are its own, such as with_stack."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "5")  # else it prints that it starts
    from torch.profiler import ProfilerActivity, profile

    if cuda:
        _attached()
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    return profile(activities=kinds, acc_events=acc_events, **options)


@cache
def _attached() -> None:
    """Record nothing once: a process's first recording loads CUPTI, and may miss launches meanwhile."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA], acc_events=True):
        torch.zeros(1, device="cuda")
        torch.cuda.current_stream().synchronize()


def event(of: Any) -> Event:
    """An event of torch's profiler as ours."""
    on_gpu = of.device_type().name == "CUDA"
    kind = _on_device(of) if on_gpu else _on_host(of.name(), of.is_user_annotation())
    return Event(of.name(), kind, of.start_ns(), of.end_ns(), of.start_thread_id(), of.correlation_id())


def _on_device(of: Any) -> str:
    if hasattr(of, "activity_type"):
        return _TYPES.get(of.activity_type(), OTHER)
    if of.is_user_annotation():  # a label of the host, stretched over what it launched
        return OTHER
    return COPY if _COPY.fullmatch(of.name()) else KERNEL


def _on_host(name: str, annotation: bool) -> str:
    if annotation:
        return LABEL
    if _LAUNCH.fullmatch(name):
        return LAUNCH
    return OPERATOR if _OPERATOR.fullmatch(name) or COMPILED.fullmatch(name) else OTHER


def _nested(events: list[Event]) -> list[tuple[Event, list[Event]]]:
    """Each event with the events of its thread that enclose it, the outermost first."""
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

    schemas = torch._C._jit_get_schemas_for_operator(name) if _OPERATOR.fullmatch(name) else []
    return bool(schemas) and all(returns_a_view(schema) for schema in schemas)


def returns_a_view(schema: Any) -> bool:
    return any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
