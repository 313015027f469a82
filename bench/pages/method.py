"""The tables of bench/METHOD.md."""

from __future__ import annotations

import json
from typing import Any

from cudalab.base import numbers, stats
from pages import committed
from pages.committed import packed, percent, table


def engine() -> dict[str, Any]:
    """What bench/prove.py of commit 22ec8dc found."""
    found: dict[str, Any] = json.loads((committed.FOLDER / "engine" / "engine.json").read_text())
    return found


def same_with_itself() -> str:
    """100 comparisons of a kernel with itself."""
    rows = []
    for size in ("small", "large"):
        found = engine()[f"A/A {size}"]
        counts = [str(found["verdicts"].get(v, 0)) for v in (stats.SAME, stats.UNCLEAR, stats.FASTER, stats.SLOWER)]
        rows.append([size, *counts, percent(found["largest deviation"]), percent(found["widest interval"])])
    return table(
        ["`gelu_vec` against itself, cold", "SAME", "UNCLEAR", "FASTER", "SLOWER", "largest", "widest interval"], rows
    )


def against_nvbench() -> str:
    """Cold medians of the lab and of NVBench, and the wall time of each."""
    run = committed.of(committed.FOLDER / "engine" / "nvbench.json")
    rows = []
    for case in run.cases:
        if nvbench := case.cross.get("nvbench cold"):
            ours = case.median("cold") or 0.0
            both = [f"{1e6 * seconds:.2f}" for seconds in (ours, nvbench)]
            walls = [f"{s:.2f} s" for s in (case.costs["timing"], case.cross["nvbench wall"])]
            rows.append([f"`{case.label}` {case.size}", *both, percent(ours / nvbench - 1, "+"), *walls])
    return table(["cold, µs", "cudalab", "NVBench", "difference", "cudalab's wall time", "NVBench's"], rows)


def by_flush() -> str:
    """Cold medians by how L2 is flushed."""
    found = engine()["flush"]
    ways = list(next(iter(found.values())))
    rows = [[f"`{name}`", *(f"{1e6 * times[way]:.2f}" for way in ways)] for name, times in found.items()]
    return table(["cold, µs", *ways], rows)


def by_size() -> str:
    """Seconds and host memory of a case, by its size."""
    rows = [
        [r["size"], f"{r['array MB']:.0f}", f"{r['seconds a case']:.2f}", f"{r['peak host memory MB']:,.0f}"]
        for r in engine()["cost"]
    ]
    return table(["elements", "array MB", "seconds a case", "peak host memory, MB"], rows)


def two_runs() -> str:
    """Speed-ups over eager PyTorch in two runs, at least ten minutes apart."""
    folder = committed.FOLDER / "engine"
    one, two = packed(folder / "gelu_earlier.json.gz"), packed(folder / "gelu_later.json.gz")
    rows = []
    for case in one.cases:
        other = next((c for c in two.cases if (c.group, c.label) == (case.group, case.label)), None)
        if case.dtype == "float32" and case.size in ("large", "xlarge") and other and case.backend != "torch_eager":
            before, after = one.speedup(case, "cold"), two.speedup(other, "cold")
            if before and after:
                change = percent(after.value / before.value - 1, "+")
                rows.append([f"`{case.label}` {case.size}", numbers.ratio(before), numbers.ratio(after), change])
    head = ["x eager, cold, float32", f"run of {one.created[11:16]}", f"run of {two.created[11:16]} UTC", "change"]
    return table(head, rows)
