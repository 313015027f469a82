"""NVIDIA's ncu, which reads the hardware's counters: its command line, and its output.

ncu runs each kernel several times and alone, after a flush of the L2 cache: its durations differ from those of
`cudalab bench`. Counters need a permission that many machines do not give.
"""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

from cudalab.base.errors import Unavailable
from cudalab.tools.profile.found import Counters

DURATION = "gpu__time_duration.sum"
READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
MEMORY = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
COMPUTE = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
REGISTERS = "launch__registers_per_thread"
METRICS = (DURATION, READ, WRITTEN, MEMORY, COMPUTE, OCCUPANCY, REGISTERS)
MARKS = ("empty", "empty()")  # the lab's kernel before each variant's
PLACES = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/ncu")
PERMISSION = (
    "ncu may not read the GPU's counters here (ERR_NVGPUCTRPERM); run as root, or in a container with "
    "CAP_SYS_ADMIN, or load the driver with NVreg_RestrictProfilingToAdminUsers=0 for all users"
)


def program() -> str | None:
    return shutil.which("ncu") or next((place for place in PLACES if Path(place).is_file()), None)


def missing() -> str | None:
    """Why there are no counters, and what to install; None if ncu is there."""
    if program():
        return None
    package = "Debian, Ubuntu: cuda-nsight-compute-12-8, ..."
    return f"no counters: ncu is not on PATH; it comes with the CUDA toolkit ({package})"


def command(log: Path) -> tuple[str, ...]:
    """The command that goes before that of the profiled process; ncu writes to `log`."""
    name = program()
    if not name:
        raise Unavailable(str(missing()))
    return (
        name, "--target-processes", "all", "--profile-from-start", "off", "--clock-control", "none",
        "--metrics", ",".join(METRICS), "--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log),
    )  # fmt: skip


def read(text: str) -> list[Counters]:
    """The kernels in ncu's log, in their order. Raises Unavailable with ncu's message if it measured none."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise Unavailable(_failure(lines))
    rows = list(csv.DictReader(line for line in lines[start:] if line.startswith('"')))
    return [Counters(row["Kernel Name"], _metrics(row)) for row in rows if row["ID"]]  # the first has the units


def _failure(lines: list[str]) -> str:
    if any("ERR_NVGPUCTRPERM" in line for line in lines):
        return PERMISSION
    said = [line.removeprefix("==ERROR==").strip() for line in lines if line.startswith("==ERROR==")]
    others = [line.strip() for line in lines if line.strip()]
    return f"ncu measured nothing: {(said or others or ['it printed nothing'])[-1]}"


def _metrics(row: dict[str, str]) -> dict[str, float]:
    found = {}
    for name in METRICS:
        try:
            found[name] = float(row.get(name, "").replace(",", ""))
        except ValueError:  # n/a
            continue
    return found


def by_variant(kernels: list[Counters], labels: list[str]) -> dict[str, list[Counters]]:
    """The kernels after each mark, by label. Raises Unavailable unless there are as many marks as labels."""
    parts: list[list[Counters]] = []
    for kernel in kernels:
        if kernel.kernel in MARKS:
            parts.append([])
        elif parts:
            parts[-1].append(kernel)
    if len(parts) != len(labels):
        raise Unavailable(f"ncu saw {len(parts)} variants, expected {len(labels)}: no kernel can be matched")
    return dict(zip(labels, parts, strict=True))
