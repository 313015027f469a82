"""How much memory of the machine is free."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cudalab.base.load import PROC, groups

# Of a control group's folder, by its version: the limit, and what is used.
FILES = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))


def free() -> int:
    """Bytes that programs can have: of the machine, and of the control groups that this process is in; 0: not known."""
    return min(filter(None, [_of_machine(), *_of_groups()]), default=0)


def _of_machine() -> int:
    try:
        lines = (PROC / "meminfo").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), 0)


def _of_groups() -> Iterator[int]:
    for folder in groups("memory"):
        for limit, used in FILES:
            try:
                most = (folder / limit).read_text().strip()
                if most != "max":
                    yield max(int(most) - int((folder / used).read_text()) + _reclaimable(folder), 1)
            except (OSError, ValueError):
                continue


def _reclaimable(folder: Path) -> int:
    """Bytes of files that the group has read and does not need in memory."""
    for line in (folder / "memory.stat").read_text().splitlines():
        name, _, value = line.partition(" ")
        if name in ("inactive_file", "total_inactive_file"):
            return int(value)
    return 0
