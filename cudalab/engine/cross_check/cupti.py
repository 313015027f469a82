"""CUPTI's records of kernels, by torch.profiler, of cold runs as the lab takes them.

CUPTI has the GPU itself note when each kernel begins and ends, without events and without the host. The lab's own clock
takes the samples: with its flush, on its stream, between its two kernels that read the GPU's timer, which mark in the
records what belongs to the run. A run lasts from the start of its first kernel, copy or fill to the end of its last.
The events' times of the same samples stand beside it, and events' times of the same process without records: so what
two clocks say of one run is told from what two processes say, and from what recording does to a kernel. CUPTI may lose
records (pytorch issue 192021): then the row has a reason and no time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter

from cudalab import timing
from cudalab.base import stats
from cudalab.base.child import Parent
from cudalab.base.errors import LaunchError
from cudalab.device.activity import DEVICE_KINDS, Event, event, raw
from cudalab.device.arrays import torch_missing
from cudalab.device.gpu import Gpu
from cudalab.device.operands import Bound
from cudalab.engine.cross_check import ready
from cudalab.engine.cross_check.ready import Found
from cudalab.timing.clock import Clock
from cudalab.timing.events import MARKS
from cudalab.timing.gpu import NOT_HELD

# Seconds: the median by CUPTI, that of the same samples by the lab's events, that of the same process's events before
# anything was recorded, and what the recording took.
COLD, EVENTS, BEFORE, WALL = "cupti cold", "cupti events", "cupti before", "cupti wall"
SAMPLES = 60  # of a variant, at least
EACH = 60.0  # seconds that a variant may take
ISSUE = "https://github.com/pytorch/pytorch/issues/192021"


def missing() -> str | None:
    """Why CUPTI's records cannot be had, and what to type; None if they can."""
    reason = torch_missing("cuda")
    return f"CUPTI's records come from PyTorch's profiler: {reason}" if reason else None


def times(request: ready.Request) -> dict[str, Found]:
    """By label: COLD, EVENTS, BEFORE and WALL. Raises LaunchError if the process failed."""
    limit = ready.START + EACH * len(request.labels)
    return ready.asked("CUPTI's process", f"{__name__}.main", request, dict[str, Found], limit)


def spans(events: Sequence[Event], runs: int) -> list[float]:
    """Seconds of each run, in the order of time: from the start of its first event on the GPU to the end of its last.

    Raises LaunchError where records are missing: a run without any, runs with unequal numbers, or lost marks.
    """
    inside: list[list[Event]] = []
    marks = 0
    for one in sorted((e for e in events if e.kind in DEVICE_KINDS), key=lambda e: e.start):
        if one.name in MARKS:
            marks += 1
            if marks % 2:
                inside.append([])
        elif marks % 2:
            inside[-1].append(one)
    if marks != 2 * runs:
        raise LaunchError(f"CUPTI recorded {marks} of {2 * runs} marks around {runs} runs; see {ISSUE}")
    counts = sorted({len(found) for found in inside})
    if counts[0] == 0 or len(counts) > 1:
        have = f"between {counts[0]} and {counts[-1]} kernels" if len(counts) > 1 else "no kernel"
        raise LaunchError(f"CUPTI recorded {have} per run of the same work: records were lost; see {ISSUE}")
    return [1e-9 * (max(e.end for e in found) - min(e.start for e in found)) for found in inside]


# ---- in the child ------------------------------------------------------------------------------------------------


def main(parent: Parent) -> None:
    """Record what the request asks for."""
    request = next(parent.orders(ready.Request))
    with ready.device_and_works(request) as (device, works):
        parent.answer(recorded(device, works))


def recorded(device: Gpu, works: Mapping[str, Bound]) -> dict[str, Found]:
    """Each work's median by CUPTI, or why it has none."""
    found: dict[str, Found] = {}
    for kind in (_before, _cold):  # all works before anything is recorded: recording may leave something behind
        for label, work in works.items():
            one, start = found.setdefault(label, Found()), perf_counter()
            if not one.why:
                try:
                    one.times |= kind(device, work)
                    one.times[WALL] = perf_counter() - start
                except LaunchError as error:
                    found[label] = Found(why=str(error))
    return found


def _before(device: Gpu, work: Bound) -> dict[str, float]:
    """The median of cold samples by events, while nothing is recorded."""
    return {BEFORE: stats.median([_samples(_clock(device, work))])}


def _clock(device: Gpu, work: Bound) -> Clock:
    """The clock of cold runs. Raises LaunchError for work that cannot be held: nothing marks the start of its runs."""
    notes: list[str] = []
    clock = timing.clocks(device, work, ("launch",), notes)["cold"]
    if NOT_HELD in notes:
        raise LaunchError(f"it {NOT_HELD}")
    return clock


def _samples(clock: Clock) -> list[float]:
    deadline = perf_counter() + EACH / 4
    found: list[float] = []
    while len(found) < SAMPLES and perf_counter() < deadline:
        found += clock.sample()
    return found


def _cold(device: Gpu, work: Bound) -> dict[str, float]:
    """Medians of the same cold samples by CUPTI and by events."""
    clock = _clock(device, work)
    with raw(cuda=True) as seen:
        by_events = _samples(clock)
        device.stream.synchronize()
    by_cupti = spans([event(e) for e in seen.profiler.kineto_results.events()], len(by_events))
    return {COLD: stats.median([by_cupti]), EVENTS: stats.median([by_events])}
