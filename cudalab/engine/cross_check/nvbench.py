"""NVBench times the same launches as the lab's own clocks.

NVBench can run once in a process, so it runs in a child. It times the lab's PyCUDA stream. NVBench's options are its
defaults. For a cold time NVBench flushes L2 by writing as many bytes as L2 has, which leaves dirty lines there; the lab
writes and reads twice as many.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

import msgspec

from cudalab import timing
from cudalab.base import advice, scratch
from cudalab.base.child import Parent
from cudalab.base.errors import Unavailable
from cudalab.device.arrays import ForeignStream
from cudalab.device.gpu import Gpu
from cudalab.device.operands import Bound
from cudalab.device.protocol import Device
from cudalab.engine.cross_check import ready
from cudalab.engine.cross_check.ready import Found
from cudalab.timing.gpu import NOT_HELD
from cudalab.timing.work import spent

COLD, BATCH, WALL = "nvbench cold", "nvbench batch", "nvbench wall"  # median, mean, and what both took; seconds
TAGS = {COLD: "nv/cold/time/gpu/median", BATCH: "nv/batch/time/gpu/mean"}
TIMEOUT = 15.0  # seconds of one measurement, NVBench's own default


class Request(ready.Request):
    """What the process is to time."""

    timeout: float = TIMEOUT
    output: str = ""  # the file that NVBench writes


def missing() -> str | None:
    """Why NVBench cannot be used, and what to type; None if it can."""
    try:
        found = importlib.util.find_spec("cuda.bench") and importlib.util.find_spec("cuda.bindings")
    except ModuleNotFoundError:  # not even the package that both are in
        found = None
    return None if found else f"NVBench is not installed; {advice.extra('nvbench')}"


def times(request: ready.Request, timeout: float = TIMEOUT) -> dict[str, Found]:
    """By label: "nvbench cold" (median), "nvbench batch" (mean) and "nvbench wall" (for both measurements).

    A label without a time is left out: one whose runs need new contents, since NVBench repeats them.
    Raises Unavailable without NVBench, LaunchError if its process failed.
    """
    if reason := missing():
        raise Unavailable(reason)
    limit = ready.START + len(request.labels) * (2 * timeout + 10)
    with scratch.folder() as folder:
        file = folder / "nvbench.json"
        asked = Request(**msgspec.structs.asdict(request), timeout=timeout, output=str(file))
        walls = ready.asked("NVBench", f"{__name__}.main", asked, dict[str, float], limit)
        found = parsed(file.read_bytes())
    return {label: Found({**found[label], WALL: walls[label]}) for label in request.labels if label in found}


def parsed(text: bytes) -> dict[str, dict[str, float]]:
    """The times in NVBench's file by the benchmark's name; benchmarks without a cold time are left out."""
    found = {}
    for benchmark in msgspec.json.decode(text)["benchmarks"]:
        for state in benchmark["states"]:
            values = {s["tag"]: _value(s) for s in state["summaries"] or () if s["tag"] in TAGS.values()}
            times = {name: values[tag] for name, tag in TAGS.items() if tag in values}
            if COLD in times and not state["is_skipped"]:
                found[benchmark["name"]] = times
    return found


def _value(summary: Mapping[str, Any]) -> float:
    return next(float(d["value"]) for d in summary["data"] if d["name"] == "value")  # numbers are written as text


# ---- in the child ------------------------------------------------------------------------------------------------


def main(parent: Parent) -> None:
    """Time what the request asks for; NVBench writes its file, and the answer is the seconds that each label took."""
    request = next(parent.orders(Request))
    with ready.device_and_works(request) as (device, works):
        parent.answer(timed(device, works, request, request.output))


def waits_inside(device: Device, work: Bound) -> bool:
    """Whether this work waits for the GPU, so that its queue cannot be held."""
    notes: list[str] = []
    timing.clocks(device, work, ("launch",), notes)
    return NOT_HELD in notes


def timed(device: Gpu, bounds: Mapping[str, Bound], request: Request, path: str) -> dict[str, float]:
    """Let NVBench time each work on the lab's stream and write `path`; returns the seconds that each took."""
    from cuda import bench

    walls: dict[str, float] = {}
    stream = ForeignStream(device.stream.handle)

    def benchmark(label: str, work: Bound) -> Callable[[Any], None]:
        waits = waits_inside(device, work)

        def measure(state: Any) -> None:
            state.set_stream(stream)
            start = perf_counter()
            state.exec(lambda launch: work.run(), sync=waits)  # True: NVBench does not block the stream
            walls[label] = perf_counter() - start

        return measure

    for label, work in bounds.items():
        if not spent(work):
            bench.register(benchmark(label, work)).set_name(label).set_timeout(request.timeout)
    bench.run_all_benchmarks(["cudalab", "--devices", str(request.device), "--json", path, "--quiet"])
    return walls
