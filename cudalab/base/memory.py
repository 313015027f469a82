"""How much memory of the machine is free, and what this process does with the memory that it frees."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

from cudalab.base.load import PROC, groups

# Of a control group's folder, by its version: the limit, and what is used.
FILES = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
# Of glibc's mallopt: arrays below MAPPED bytes, its limit, come from a heap, which keeps so many bytes that are free.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
MAPPED, KEPT = 32 << 20, 256 << 20


def keep() -> None:
    """Let this process keep memory that it frees: NumPy's next array then costs no page faults.

    A page fault for each 4 KiB doubles the time of arithmetic on arrays of a megabyte, and threads wait for each other
    in it. Not where NumPy is timed: a user's process has them too.
    """
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):  # musl has none
        mallopt(_MMAP_THRESHOLD, MAPPED)
        mallopt(_TRIM_THRESHOLD, KEPT)


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
