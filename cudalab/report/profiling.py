"""The result of `cudalab profile` as text: counts of each variant, the longest kernels, and ncu's counters."""

from __future__ import annotations

import io
from collections.abc import Sequence

import msgspec

from cudalab.base import numbers
from cudalab.report import columns
from cudalab.report.table import columns_of, finished, plain, put, remark, screen
from cudalab.tools.profile import found, ncu
from cudalab.tools.profile.found import Counters, Profile, Row, brief

COUNTED = (  # ncu's metrics: column, metric, unit
    ("\u00b5s", ncu.DURATION, 1e3),  # ncu's base unit is the ns
    ("read MB", ncu.READ, 1e6),
    ("written MB", ncu.WRITTEN, 1e6),
    ("memory %", ncu.MEMORY, 1.0),
    ("compute %", ncu.COMPUTE, 1.0),
    ("warps %", ncu.OCCUPANCY, 1.0),
    ("registers", ncu.REGISTERS, 1.0),
)


def render(profile: Profile, width: int | None = None, color: bool = False) -> str:
    """The tables for a terminal, at most `width` columns wide."""
    out = io.StringIO()
    console = screen(out, width, color)
    console.print(plain(title(profile), "bold"))
    good = [row for row in profile.rows if row.status == found.OK]
    gpu = profile.device == "cuda"
    table = columns_of(["variant", *(("kernels", "launches", "busy \u00b5s") if gpu else ("operators",))], left=1)
    for row in good:
        table.add_row(*map(plain, counts(row, gpu)))
    if good:
        put(console, table)
    for row in good:
        if row.longest:
            console.print(remark("longest", row.label, longest(row)))
    if any(row.counters for row in good):
        console.print()
        table = columns_of(["variant", "kernel", *(name for name, _, _ in COUNTED)], left=2)
        for label, kernel in ((row.label, kernel) for row in good for kernel in row.counters):
            table.add_row(*map(plain, counted(label, kernel)))
        put(console, table, (1, 0))
    console.print()
    for row in profile.rows:
        if row.status != found.OK:
            console.print(remark(row.status, row.label, row.reason))
    for line in footer(profile):
        console.print(plain(line, "dim"))
    return finished(out, width, "json")


def title(profile: Profile) -> str:
    shape = "x".join(map(str, profile.shape))
    on = profile.name if profile.device == "cuda" else f"the CPU ({profile.name}); no GPU: no kernels"
    return f"{profile.kernel} {profile.size} ({shape}), {profile.dtype}: one call of each variant on {on}"


def counts(row: Row, gpu: bool) -> list[str]:
    names = ("kernels", "launches") if gpu else ("operators",)
    busy = [numbers.three(1e6 * row.counts["gpu_busy_s"])] if gpu else []
    return [row.label, *(f"{row.counts[name]:.4g}" for name in names), *busy]


def longest(row: Row) -> str:
    """The longest kernels or operators of a call, with their microseconds."""
    times = ((one, f" ({one.count:.3g})" if one.count != 1 else "") for one in row.longest)
    return "; ".join(f"{numbers.three(1e6 * one.seconds)} \u00b5s {brief(one.name)}{often}" for one, often in times)


def counted(label: str, kernel: Counters) -> list[str]:
    values = ((kernel.metrics.get(metric), unit) for _, metric, unit in COUNTED)
    texts = (columns.NOT_MEASURED if value is None else numbers.three(value / unit) for value, unit in values)
    return [label, brief(kernel.kernel, 40), *texts]


def footer(profile: Profile) -> list[str]:
    lines = []
    if profile.device == "cuda":
        lines.append("launches: what the host puts into the queue; a graph of many kernels counts as one.")
        lines.append("busy: time in which the GPU was at work, under the profiler. For times, see `cudalab bench`.")
    else:
        lines.append(
            "operators: those that the call dispatches. Views, and operators called by other operators, are not "
            "counted; their time is included. Code of torch.compile counts as one operator."
        )
        lines.append("\u00b5s: an operator's own time, under the profiler. For times, see `cudalab bench`.")
    if any(row.counters for row in profile.rows):
        lines.append("memory, compute, warps: percent of the peak, by ncu, one kernel at a time from an empty cache.")
    return [*lines, *profile.notes]


def as_json(profiles: Sequence[Profile]) -> str:
    """One profile as an object, several as a list of objects."""
    return msgspec.json.format(msgspec.json.encode(profiles[0] if len(profiles) == 1 else profiles), indent=2).decode()
