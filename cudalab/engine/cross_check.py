"""The cross-check: NVBench times the same launches as the lab's own clocks.

NVBench can run once in a process, so it runs in a child. The child binds the variants as in a run, from the same spec
and seed, and NVBench times the lab's PyCUDA stream. NVBench's options are its defaults. For a cold time NVBench flushes
L2 by writing as many bytes as L2 has, which leaves dirty lines there; the lab writes and reads twice as many.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec

from cudalab import timing
from cudalab.base.child import Child, Ended, Parent, last
from cudalab.base.errors import LaunchError, Unavailable, unknown
from cudalab.device import cuda
from cudalab.device.arrays import ForeignStream
from cudalab.device.gpu import Gpu
from cudalab.device.open import open_gpu
from cudalab.device.operands import Bound, Operands
from cudalab.device.protocol import Device
from cudalab.engine import plan
from cudalab.engine.plan import Group
from cudalab.results.record import COPY, Case
from cudalab.spec import find, tuned
from cudalab.spec.dtype import DType, dtype
from cudalab.spec.kernel import Kernel, Shape
from cudalab.timing.gpu import NOT_HELD

NAMES = ("nvbench",)
INSTALL = "pip install -e '.[nvbench]' in the checkout"
COLD, BATCH, WALL = "nvbench cold", "nvbench batch", "nvbench wall"  # median, mean, and what both took; seconds
TAGS = {COLD: "nv/cold/time/gpu/median", BATCH: "nv/batch/time/gpu/mean"}
TIMEOUT = 15.0  # seconds of one measurement, NVBench's own default
START = 300.0  # seconds that importing, compiling and placing may take


class Request(msgspec.Struct):
    """What the process is to time."""

    kernel: str  # path of the spec
    size: str
    shape: tuple[int, ...]
    dtype: str
    labels: list[str]
    seed: int
    device: int
    timeout: float
    output: str = ""  # the file that NVBench writes


def missing() -> str | None:
    """Why NVBench cannot be used, and what to type; None if it can."""
    try:
        found = importlib.util.find_spec("cuda.bench") and importlib.util.find_spec("cuda.bindings")
    except ModuleNotFoundError:  # not even the package that both are in
        found = None
    return None if found else f"NVBench is not installed; {INSTALL}"


def nvbench(
    kernel: Kernel, size: str, shape: Shape, dtype: DType, labels: Collection[str], seed: int, device_index: int,
    timeout: float = TIMEOUT,
) -> dict[str, dict[str, float]]:  # fmt: skip
    """Seconds by label: "nvbench cold" (median), "nvbench batch" (mean) and "nvbench wall" (for both measurements).

    A label is that of a case: `backend`, `backend:variant`, or "copy". A label without a time is left out.
    Raises Unavailable without NVBench, LaunchError if its process failed.
    """
    if reason := missing():
        raise Unavailable(reason)
    limit = START + len(labels) * (2 * timeout + 10)
    with tempfile.TemporaryDirectory(prefix="cudalab-") as folder:
        file = Path(folder, "nvbench.json")
        request = Request(
            kernel.file, size, shape, dtype.name, list(labels), seed, device_index, timeout, str(file)
        )  # fmt: skip
        with Child[dict[str, float]]("cudalab.engine.cross_check.main", answers=dict[str, float]) as process:
            process.send(request)
            try:
                walls = process.receive(limit)
            except Ended as ended:
                if ended.hung:
                    raise LaunchError(f"NVBench had not finished after {limit:g} s") from None
                said = last(ended.said) or last(process.printed) or "it said nothing"
                raise LaunchError(f"NVBench {ended.how}: {said}") from None
            process.end()  # a failure of the clean-up costs nothing
        found = parsed(file.read_bytes())
    return {label: {**found[label], WALL: walls[label]} for label in labels if label in found}


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


def chosen(name: str) -> None:
    """Raise NotFound for another tool than NVBench, Unavailable where it is not installed."""
    if name not in NAMES:
        raise unknown("cross-check", name, NAMES)
    if reason := missing():
        raise Unavailable(reason)


def add(cases: Collection[Case], group: Group, seed: int, device: str) -> None:
    """Fill in `cross` of each case that has times; a case that NVBench could not time gets a note.

    `device` is the run's option: cuda:N, or another word for the first GPU.
    """
    rows = [case for case in cases if case.times]
    if not rows:
        return
    try:
        labels = [case.label for case in rows]
        index = int(device.partition(":")[2] or 0)
        found = nvbench(group.kernel, group.size, group.shape, group.dtype, labels, seed, index)
    except LaunchError as error:
        rows[0].notes.append(f"no cross-check: {error}")
        return
    for case in rows:
        case.cross = found.get(case.label, {})
        if not case.cross:
            case.notes.append("no cross-check: NVBench gave no time")


# ---- in the child ------------------------------------------------------------------------------------------------


def main(parent: Parent) -> None:
    """Time what the request asks for; NVBench writes its file, and the answer is the seconds that each label took."""
    request = next(parent.orders(Request))
    device = open_gpu(request.device, cuda.missing())
    try:
        group = Group(find.kernel(request.kernel), request.size, request.shape, dtype(request.dtype))
        operands = device.place(group.kernel, group.dtype, group.arrays(request.seed))
        bounds = {label: bound(device, group, operands, label) for label in request.labels}
        parent.answer(timed(device, bounds, request, request.output))
    finally:
        device.close()


def bound(device: Gpu, group: Group, operands: Operands, label: str) -> Bound:
    """The variant with this label, ready and warm."""
    if label == COPY:
        found = device.copy(sum(a.nbytes for a in (*operands.inputs.values(), operands.output)))
        assert found is not None
    else:
        (variant,) = (v for v in plan.Selection().variants(group, device.kind) if v.label == label)
        kernel, _ = tuned.for_variant(group.kernel, variant.name, variant.parameters, group.dtype, cuda.card_of(device))
        found = variant.backend.bind(kernel, variant.name, group.dtype, operands)
    timing.warm_up(device, found)
    return found


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
        bench.register(benchmark(label, work)).set_name(label).set_timeout(request.timeout)
    bench.run_all_benchmarks(["cudalab", "--devices", str(request.device), "--json", path, "--quiet"])
    return walls
