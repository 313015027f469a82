"""Export as NVBench's JSON (its file version 1.0.0), for nvbench-compare and its other scripts.

A kernel becomes a benchmark, a case a state, and Variant, Size, DType and Elements become axes. `cold` is NVBench's
cold time, `hot` its batch time, `wall` its CPU time. NVBench has no tags for the other kinds: they get tags such as
`cudalab/graph`, which its summary shows. NVBench stores samples in separate files, which are not written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cudalab.base import stats
from cudalab.results.json_file import MARK, as_json
from cudalab.results.record import BROKEN, ENERGY, SKIPPED, Case, Results

FILE_VERSION = (1, 0, 0)
SHOWN: dict[str, str] = {}
HIDDEN = {"hide": "Hidden by default."}

# NVBench's tag and column name for each kind of time.
PLACES = {"cold": ("nv/cold/time/gpu", "GPU Time"), "wall": ("nv/cold/time/cpu", "CPU Time")}
OWN = {"graph": "Graph", "graph_cold": "Graph, cold", "call": "Call", "api": "Call, with its result's allocation"}

# NVBench's names for properties of a GPU, and ours.
DEVICE = {
    "number_of_sms": "multiprocessors",
    "l2_cache_size": "l2_bytes",
    "global_memory_size": "memory_bytes",
    "global_memory_bus_width": "memory_bus_bits",
    "global_memory_bus_peak_clock_rate": "memory_clock_hz",
}


def encoded(run: Results) -> bytes:
    """The bytes of the file."""
    version = dict(zip(("major", "minor", "patch"), FILE_VERSION)) | {"string": ".".join(map(str, FILE_VERSION))}
    kernels = dict.fromkeys(case.kernel for case in run.cases)
    return as_json({
        MARK: {"version": run.version},
        "meta": {"argv": [MARK], "version": {"json": version}},
        "devices": [_device(run)],
        "benchmarks": [
            _benchmark(index, name, [c for c in run.cases if c.kernel == name]) for index, name in enumerate(kernels)
        ],
    })  # fmt: skip


def _device(run: Results) -> dict[str, Any]:
    details = run.machine.details
    known = {theirs: details[ours] for theirs, ours in DEVICE.items() if ours in details}
    capability = str(details.get("compute_capability", ""))
    if re.fullmatch(r"[0-9]{1,3}\.[0-9]", capability):
        known["sm_version"] = known["ptx_version"] = int(capability.replace(".", "")) * 10
    return {"id": 0, "name": run.machine.name, **known}


def _benchmark(index: int, name: str, cases: Sequence[Case]) -> dict[str, Any]:
    states = [_state(case) for case in cases]
    axes: dict[str, dict[str, dict[str, Any]]] = {}
    for state in states:
        for point in state["axis_values"]:
            value = int(point["value"]) if point["type"] == "int64" else point["value"]
            entry = {"input_string": point["value"], "description": "", "value": value}
            axes.setdefault(point["name"], {})[point["value"]] = entry
    kinds = {point["name"]: point["type"] for state in states for point in state["axis_values"]}
    return {
        "name": name,
        "index": index,
        "devices": [0],
        "axes": [
            {"name": axis, "type": kinds[axis], "flags": "", "values": list(values.values())}
            for axis, values in axes.items()
        ],
        "states": states,
    }


def _state(case: Case) -> dict[str, Any]:
    point: dict[str, int | str] = {
        "Variant": case.label,
        "Size": case.size,
        "DType": case.dtype,
        "Elements": math.prod(case.shape),
    }
    reason = f"{case.status}: {case.reason}" if case.status in (*BROKEN, SKIPPED) else ""
    reason = reason or ("" if case.times else "not timed")
    return {
        "name": " ".join(["Device=0", *(f"{axis}={value}" for axis, value in point.items())]),
        "device": 0,
        "type_config_index": 0,
        "axis_values": [{"name": axis, **_value(value)} for axis, value in point.items()],
        "summaries": list(_summaries(case)) if not reason else [],
        "is_skipped": bool(reason),
        **({"skip_reason": reason} if reason else {}),
    }


def _summaries(case: Case) -> Iterator[dict[str, Any]]:
    for kind, rounds in case.times.items():
        if kind == ENERGY:  # NVBench's files hold times
            continue
        samples = stats.flat(rounds)
        if kind == "hot":
            yield _summary("nv/batch/sample_size", "Samples", len(samples), "sample_size")
            yield _summary("nv/batch/time/gpu/mean", "Batch GPU", float(samples.mean()), "duration")
            continue
        tag, name = PLACES.get(kind, (f"{MARK}/{kind}/time", OWN.get(kind, kind)))
        if kind in PLACES:
            yield _summary("nv/cold/sample_size", "Samples", len(samples), "sample_size")
        yield from _times(tag, name, samples)
        if kind == "cold" and case.nbytes:
            yield _summary("nv/cold/bw/global/bytes_per_second", "GlobalMem BW", case.nbytes / float(samples.mean()),
                           "byte_rate")  # fmt: skip


def _times(tag: str, name: str, samples: np.ndarray) -> Iterator[dict[str, Any]]:
    """Mean and noise, which NVBench shows, and the quartiles that its comparison reads."""
    mean, deviation = float(samples.mean()), float(samples.std(ddof=1)) if len(samples) > 1 else 0.0
    q1, median, q3 = (float(q) for q in np.percentile(samples, [25, 50, 75]))
    yield _summary(f"{tag}/mean", name, mean, "duration")
    yield _summary(f"{tag}/stdev/relative", "Noise", deviation / mean, "percentage")
    hidden = {"min": float(samples.min()), "max": float(samples.max()), "stdev/absolute": deviation, "q1": q1,
              "median": median, "q3": q3, "iqr/absolute": q3 - q1}  # fmt: skip
    for end, value in hidden.items():
        yield _summary(f"{tag}/{end}", f"{name}, {end}", value, "duration", HIDDEN)
    yield _summary(f"{tag}/iqr/relative", f"{name}, iqr/relative", (q3 - q1) / median, "percentage", HIDDEN)


def _summary(tag: str, name: str, value: float, hint: str, hide: dict[str, str] = SHOWN) -> dict[str, Any]:
    return {"tag": tag, "name": name, "hint": hint, **hide, "data": [{"name": "value", **_value(value)}]}


def _value(value: float | str) -> dict[str, str]:
    """A value as NVBench writes it: a type, and the number as text."""
    return {"type": {str: "string", int: "int64"}.get(type(value), "float64"), "value": str(value)}
