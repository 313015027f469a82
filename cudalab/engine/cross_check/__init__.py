"""Another clock beside the lab's own: NVBench, or CUPTI's records of kernels. Each runs in a process of its own.

What it measures stands in a row's `cross`. Where it fails the row says so, and no other clock takes its place.
"""

from __future__ import annotations

from collections.abc import Collection
from types import ModuleType

from cudalab.base.errors import LaunchError, Unavailable, unknown
from cudalab.engine.cross_check import cupti, nvbench
from cudalab.engine.cross_check.ready import Found, Request
from cudalab.engine.groups import Group
from cudalab.results.record import Case

TOOLS: dict[str, ModuleType] = {"nvbench": nvbench, "cupti": cupti}
NAMES = {"nvbench": "NVBench", "cupti": "CUPTI"}  # as texts have them


def chosen(name: str) -> None:
    """Raise NotFound for another tool than these, Unavailable where it is not installed."""
    if name not in TOOLS:
        raise unknown("cross-check", name, TOOLS)
    if reason := TOOLS[name].missing():
        raise Unavailable(reason)


def add(name: str, cases: Collection[Case], group: Group, seed: int, device: str) -> None:
    """Fill in `cross` of each case that has times; a case that the tool could not time gets a note.

    `device` is the run's option: cuda:N, or another word for the first GPU.
    """
    rows = [case for case in cases if case.times and not case.old]
    if not rows:
        return
    index = int(device.partition(":")[2] or 0)
    labels = [case.label for case in rows]
    request = Request(group.file, group.size, group.shape, group.dtype.name, labels, seed, index)
    try:
        found = TOOLS[name].times(request)
    except LaunchError as error:
        rows[0].notes.append(f"no cross-check: {error}")
        return
    for case in rows:
        one = found.get(case.label, Found(why=f"{NAMES[name]} reported no time"))
        case.cross = one.times
        if one.why:
            case.notes.append(f"no cross-check: {one.why}")
