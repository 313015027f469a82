"""How busy other programs keep the processors while a run measures."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

DECAY, STEP = 60.0, 5.0  # seconds: in which the kernel's first load average forgets, and between its updates
TICKS = os.sysconf("SC_CLK_TCK")
PROC, CGROUP = Path("/proc"), Path("/sys/fs/cgroup")
OTHERS, CORES = "load of others", "cores"  # of `Watch.seconds`
BUSY = 0.25  # load of other programs on each core from which times of the host are those of the load too


def is_busy(others: float, cores: float) -> bool:
    """Say whether a mean load of other programs on so many cores disturbs times of the host."""
    return others > BUSY * cores


class Watch:
    """Counts the load of other programs from its creation on.

    Others use what the processors worked, less what this process and its descendants used. Where more programs want to
    run than there are processors, others also wait, in proportion. The load average tells how many want to run; it is
    that of the last minute, and what it was since the last look follows from its change. It is a sample of a moment
    every STEP seconds, so that it alone would take a burst of the lab's own threads for others.
    """

    def __init__(self) -> None:
        self._at, self._average, self._used, self._busy = monotonic(), _average(), descendants(), _busy()
        self._begun = self._at
        self._group = _used_by_group()
        self._others = self._cores = 0.0

    def seconds(self) -> dict[str, float]:
        """The integrals since the creation: of other programs' load (OTHERS), and of the `cores` there are (CORES).

        Under a CPU quota both are in proportion to it.
        """
        at, average, used, busy, group = monotonic(), _average(), descendants(), _busy(), _used_by_group()
        elapsed = max(at - self._at, 1e-3)
        host, mine = os.cpu_count() or 1, cores()
        load = (self._average + average) / 2 + DECAY * (average - self._average) / max(elapsed, STEP)
        own = max(used - self._used, 0.0)
        others = max(busy - self._busy - own, 0.0) * max(load / host, 1.0) * mine / host
        if mine < host and group is not None and self._group is not None:
            others = max(others, group - self._group - own)
        self._at, self._average, self._used, self._busy, self._group = at, average, used, busy, group
        self._others += others
        self._cores += mine * elapsed
        return {OTHERS: self._others, CORES: self._cores}

    def means(self) -> tuple[float, float]:
        """Return the mean load of other programs since the creation, and the number of cores."""
        found = self.seconds()
        elapsed = max(self._at - self._begun, 1e-3)
        return found[OTHERS] / elapsed, found[CORES] / elapsed


def cores() -> float:
    """The processors that this process may use: those it is bound to, or its control group's quota if that is less."""
    return min([float(len(os.sched_getaffinity(0))), *_quotas()])


def descendants() -> float:
    """CPU seconds used by this process, its descendants, and those of them that have ended."""
    table: dict[int, tuple[int, float]] = {}
    for name in _listed(PROC):
        try:
            fields = (PROC / name / "stat").read_text().rpartition(")")[2].split()
            table[int(name)] = int(fields[1]), sum(map(int, fields[11:15])) / TICKS
        except (OSError, IndexError):  # it has ended
            continue
    own, last = {os.getpid()}, 0
    while len(own) > last:
        last = len(own)
        own |= {pid for pid, (parent, _) in table.items() if parent in own}
    return sum(table[pid][1] for pid in own if pid in table)


def _listed(folder: Path) -> list[str]:
    """The names in /proc that are processes'. Unlike a glob, which looks into each, this survives one that ends."""
    try:
        return [name for name in os.listdir(folder) if name.isdigit()]
    except OSError:  # not Linux, or hidden
        return []


def _average() -> float:
    try:
        return os.getloadavg()[0]
    except OSError:  # not known: no load is claimed
        return 0.0


def _busy() -> float:
    """CPU seconds that all processors have worked since the machine started; 0 where the system does not tell."""
    try:
        total, *_ = (PROC / "stat").read_text().splitlines()
        user, nice, system, _, _, interrupts, soft, *_ = total.split()[1:]
        return sum(map(int, (user, nice, system, interrupts, soft))) / TICKS
    except (OSError, ValueError):  # no load is claimed
        return 0.0


def groups(controller: str) -> Iterator[Path]:
    """Folders of the control groups that this process is in, innermost first: version 2, or 1 with this controller."""
    try:
        lines = (PROC / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, names, inside = line.split(":", 2)
        if names and controller not in names.split(","):
            continue
        top = CGROUP / controller if names else CGROUP
        folder = top / inside.lstrip("/")
        yield from (f for f in (folder, *folder.parents) if f.is_relative_to(top) and os.path.isdir(f))


def _quotas() -> Iterator[float]:
    """The quotas of the control groups, in processors."""
    for folder in groups("cpu"):
        try:
            if (folder / "cpu.max").exists():
                most, period = (folder / "cpu.max").read_text().split()
            else:
                most, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
            if most != "max" and int(most) > 0:
                yield int(most) / int(period)
        except (OSError, ValueError):
            continue


def _used_by_group() -> float | None:
    """CPU seconds used by the innermost control group with an account; None if there is none."""
    for folder in groups("cpu"):
        try:
            lines = dict(line.split() for line in (folder / "cpu.stat").read_text().splitlines())
            return int(lines["usage_usec"]) / 1e6
        except (OSError, ValueError, KeyError):
            continue
    return None
