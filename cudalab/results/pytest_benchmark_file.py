"""Export as pytest-benchmark's JSON (its versions 4 and 5), for `pytest-benchmark compare` and other readers.

Each kind of time of each case is a benchmark. The variants of one kernel, size, dtype and kind form a group. `fullname`
is the same in every run: `pytest-benchmark compare --group-by=fullname old.json new.json`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cudalab.base import stats
from cudalab.results.json_file import MARK, as_json
from cudalab.results.record import BROKEN, ENERGY, Case, Results

READER = "5.0.0"  # the version of pytest-benchmark that the file names as its writer


def encoded(run: Results) -> bytes:
    """The bytes of the file."""
    machine = run.machine
    return as_json({
        MARK: {"version": run.version, "failed": [_failed(case) for case in run.cases if case.status in BROKEN]},
        "machine_info": {
            "node": machine.name,
            "machine": machine.device,
            "system": str(machine.details.get("system", "")),
            "python_version": machine.versions.get("python", ""),
            "cpu": {"brand_raw": str(machine.details.get("cpu", machine.name))},
            **{f"{name} version": version for name, version in machine.versions.items()},
        },
        "commit_info": {"id": "unversioned", "time": None, "author_time": None, "dirty": False, "project": MARK,
                        "branch": "(unknown)"},
        "benchmarks": [_benchmark(case, kind) for case in run.cases for kind in case.times if kind != ENERGY],
        "datetime": run.created,
        "version": READER,
    })  # fmt: skip


def _failed(case: Case) -> dict[str, Any]:
    """Return a row without a time; readers of the format skip it."""
    return {
        "name": f"{case.kernel}-{case.size}-{case.dtype}::{case.label}",
        "status": case.status,
        "reason": case.reason,
    }


def _benchmark(case: Case, kind: str) -> dict[str, Any]:
    group = f"{case.kernel}-{case.size}-{case.dtype}-{kind}"
    shape = "x".join(map(str, case.shape))
    median = case.median(kind)
    return {
        "group": group,
        "name": case.label,
        "fullname": f"{group}::{case.label}",
        "params": {"size": case.size, "shape": shape, "dtype": case.dtype, "kind": kind},
        "param": f"{case.size}-{case.dtype}-{kind}",
        "extra_info": {
            "status": case.status,
            "max_ulp": case.parity.max_ulp if case.parity else None,
            "nbytes": case.nbytes,
            "bytes_per_second": case.nbytes / median if median else None,
            "rounds of samples": len(case.times[kind]),
            "notes": case.notes,
        },
        "options": {},
        "stats": statistics(stats.flat(case.times[kind])),
    }


def statistics(samples: np.ndarray) -> dict[str, Any]:
    """The statistics that pytest-benchmark computes (its stats.py), in seconds, with the samples as `data`.

    Its quartiles are the medians of the halves for an even number of samples, and weighted means for an odd one.
    """
    data, n = np.sort(samples), len(samples)
    mean, deviation = float(data.mean()), float(data.std(ddof=1)) if n > 1 else 0.0
    q1, q3 = _quartiles(data)
    low, high = q1 - 1.5 * (q3 - q1), q3 + 1.5 * (q3 - q1)
    beyond = [int(((data < a) | (data > b)).sum()) for a, b in ((mean - deviation, mean + deviation), (low, high))]
    return {
        "min": float(data[0]),
        "max": float(data[-1]),
        "mean": mean,
        "stddev": deviation,
        "rounds": n,
        "median": float(np.median(data)),
        "iqr": q3 - q1,
        "q1": q1,
        "q3": q3,
        "iqr_outliers": beyond[1],
        "stddev_outliers": beyond[0],
        "outliers": f"{beyond[0]};{beyond[1]}",
        "ld15iqr": float(data[data >= low][0]),
        "hd15iqr": float(data[data <= high][-1]),
        "ops": n / float(data.sum()),
        "total": float(data.sum()),
        "data": samples.tolist(),
        "iterations": 1,
    }


def _quartiles(data: np.ndarray) -> tuple[float, float]:
    n = len(data)
    if n % 2 == 0:
        return float(np.median(data[: n // 2])), float(np.median(data[n // 2 :]))
    if n == 1:
        return float(data[0]), float(data[0])
    k, near, far = n // 4, 0.75, 0.25
    if n % 4 == 1:
        return float(far * data[k - 1] + near * data[k]), float(near * data[3 * k] + far * data[3 * k + 1])
    return float(near * data[k] + far * data[k + 1]), float(far * data[3 * k + 1] + near * data[3 * k + 2])
