"""CUPTI's records of kernels, by torch.profiler, of cold runs as the lab takes them.

CUPTI has the GPU itself note when each kernel begins and ends, without events and without the host. The lab's own clock
takes the samples: with its flush, on its stream, behind its held queue. An empty kernel before and after each run marks
in the records what belongs to the run. A run lasts from the start of its first kernel, copy or fill to the end of its
last. CUPTI may lose records (pytorch issue 192021): then the row has a reason and no time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from cudalab.timing.gpu import timer_of

COLD, WALL = "cupti cold", "cupti wall"  # median, and what the recording took; seconds
MARK = "empty"  # the lab's kernel before and after each run
SAMPLES = 60  # of a variant, at least
EACH = 60.0  # seconds that a variant may take
ISSUE = "https://github.com/pytorch/pytorch/issues/192021"


def missing() -> str | None:
    """Why CUPTI's records cannot be had, and what to type; None if they can."""
    reason = torch_missing("cuda")
    return f"CUPTI's records come from PyTorch's profiler: {reason}" if reason else None


def times(request: ready.Request) -> dict[str, Found]:
    """By label: "cupti cold" (median) and "cupti wall". Raises LaunchError if the process failed."""
    limit = ready.START + EACH * len(request.labels)
    return ready.asked("CUPTI's process", f"{__name__}.main", request, dict[str, Found], limit)


def spans(events: Sequence[Event], runs: int) -> list[float]:
    """Seconds of each run, in the order of time: from the start of its first event on the GPU to the end of its last.

    Raises LaunchError where records are missing: a run without any, runs with unequal numbers, or lost marks.
    """
    inside: list[list[Event]] = []
    marks = 0
    for one in sorted((e for e in events if e.kind in DEVICE_KINDS), key=lambda e: e.start):
        if one.name == MARK:
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
        raise LaunchError(f"CUPTI recorded {have} a run of the same work: records were lost; see {ISSUE}")
    return [1e-9 * (max(e.end for e in found) - min(e.start for e in found)) for found in inside]


# ---- in the child ------------------------------------------------------------------------------------------------


def main(parent: Parent) -> None:
    """Record what the request asks for."""
    request = next(parent.orders(ready.Request))
    with ready.device_and_works(request) as (device, works):
        parent.answer(recorded(device, works))


def recorded(device: Gpu, works: Mapping[str, Bound]) -> dict[str, Found]:
    """Each work's median by CUPTI, or why it has none."""
    found = {}
    for label, work in works.items():
        start = perf_counter()
        try:
            seconds = _cold(device, work)
        except LaunchError as error:
            found[label] = Found(why=str(error))
            continue
        found[label] = Found({COLD: stats.median([seconds]), WALL: perf_counter() - start})
    return found


def _cold(device: Gpu, work: Bound) -> list[float]:
    mark = timer_of(device).empty
    runs = 0

    def marked() -> None:
        nonlocal runs
        runs += 1
        mark()
        work.run()
        mark()

    clock = timing.clocks(device, replace(work, run=marked), ("launch",), [])["cold"]
    deadline = perf_counter() + EACH / 2
    with raw(cuda=True) as seen:
        runs = 0
        while runs < SAMPLES and perf_counter() < deadline:
            clock.sample()
        device.stream.synchronize()
    return spans([event(e) for e in seen.profiler.kineto_results.events()], runs)
