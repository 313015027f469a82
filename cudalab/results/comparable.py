"""Whether the times of two runs may be compared, and what differs between the runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cudalab.base.errors import InputError
from cudalab.results import record
from cudalab.results.record import GPU_KINDS, Machine, Results
from cudalab.spec.kernel import assigned

OF_ONE = ("card", "sm_clock_hz")  # details that may differ between runs that are compared; older files lack them
HOST = ("system", "cpu")  # details of a machine that only matter for times that depend on the host
ASKED = ("order", "flush", "settings")  # options that change what is measured or how
BEFORE = {"flush": "clean"}  # what older files were measured with
CLOCKS = {"sm_hz": "SM clock", "memory_hz": "memory clock"}
CLOCK_CHANGE = 0.03  # clocks further apart than this forbid a comparison; steps of boost clocks are below 1 %
UNKNOWN = "not known"


class NotComparable(InputError):
    """The times of two runs may not be compared."""


@dataclass(frozen=True)
class Difference:
    """One property that is not the same in both runs."""

    what: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.what}: {self.old} -> {self.new}"


def of_host(kind: str) -> bool:
    """Whether times of this kind depend on the host."""
    return kind not in GPU_KINDS


def differences(old: Results, new: Results, kinds: Collection[str]) -> list[Difference]:
    """What forbids a comparison of times of these kinds: machine, driver, versions, options, clocks."""
    return [*machines(old.machine, new.machine, kinds), *options(old, new.options, new.timed), *_clocks(old, new)]


def options(old: Results, new: Mapping[str, Any], timed: bool = True) -> list[Difference]:
    """The options of a new run that forbid a comparison: more of them if both runs are `timed`."""
    names = [name for name in ASKED if (name in old.options and name in new) or (old.timed and timed)]
    was, now = (
        {f"--{name}": asked.get(name, BEFORE.get(name, UNKNOWN)) for name in names} for asked in (old.options, new)
    )
    return _fields(was, now)


def machines(old: Machine, new: Machine, kinds: Collection[str]) -> list[Difference]:
    """What forbids a comparison of times from these two machines; known before anything is measured."""
    if old.device != new.device:  # everything else differs too
        return [Difference("device", f"{old.device} ({old.name})", f"{new.device} ({new.name})")]
    found = _fields({"name": old.name, **_essential(old, kinds)}, {"name": new.name, **_essential(new, kinds)})
    found += _fields(old.versions, new.versions, "not installed")
    if not old.versions and not new.versions:
        found.append(Difference("versions", UNKNOWN, UNKNOWN))
    if old.device == "cuda" and "driver" not in old.details and "driver" not in new.details:
        found.append(Difference("driver", UNKNOWN, UNKNOWN))
    return found


def remarks(old: Results, new: Results, kinds: Collection[str]) -> list[str]:
    """Differences that do not forbid a comparison: sources, the host of GPU times, parameters, interruptions."""
    found = []
    changed = sorted(f for f in old.sources.keys() & new.sources.keys() if old.sources[f] != new.sources[f])
    if changed:
        found.append(f"sources that changed: {', '.join(changed)}")
    was, now = (
        {k: v for k, v in run.machine.details.items() if k not in _essential(run.machine, kinds)} for run in (old, new)
    )
    found += map(str, _fields(was, now))
    found += map(str, _parameters(old, new))
    found += [f"the {name} run was interrupted" for name, run in (("old", old), ("new", new)) if not run.complete]
    return found


def _parameters(old: Results, new: Results) -> Iterator[Difference]:
    """Launch parameters that differ, for the entries that both runs measured."""
    was, now = ({(c.kernel, c.dtype, c.label): c.parameters for c in run.cases if c.parameters} for run in (old, new))
    for key in sorted(was.keys() & now.keys()):
        if was[key] != now[key]:
            kernel, dtype, label = key
            yield Difference(f"launch parameters of {kernel} {label} {dtype}", *map(assigned, (was[key], now[key])))


def _essential(machine: Machine, kinds: Collection[str]) -> dict[str, Any]:
    host = any(map(of_host, kinds))
    return {k: v for k, v in machine.details.items() if k not in OF_ONE and (host or k not in HOST)}


def _fields(old: dict[str, Any], new: dict[str, Any], absent: str = UNKNOWN) -> list[Difference]:
    names = dict.fromkeys([*old, *new])
    both = (Difference(n.replace("_", " "), _text(old.get(n, absent)), _text(new.get(n, absent))) for n in names)
    return [d for d in both if d.old != d.new]


def _clocks(old: Results, new: Results) -> Iterator[Difference]:
    """For groups that both runs timed: clocks too far apart, and GPUs that were slowed down in one run only."""
    found: dict[Difference, list[str]] = {}
    was, now = _conditions(old), _conditions(new)
    for group in was.keys() & now.keys():
        for difference in conditions(was[group], now[group]):
            found.setdefault(difference, []).append(group)
    for d, groups in sorted(found.items(), key=lambda item: item[0].what):
        first, *more = sorted(groups)
        yield Difference(f"{d.what} at {first}{f' and {len(more)} more' if more else ''}", d.old, d.new)


def conditions(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    """What forbids a comparison of the times of a group, from the conditions of its copies: clocks, slowing down."""
    for field, name in CLOCKS.items():
        was, now = old.get(field), new.get(field)
        if not _alike(was, now):
            yield Difference(name, _mhz(was), _mhz(now))
    was, now = old.get("throttled", ""), new.get("throttled", "")
    if bool(was) != bool(now):
        yield Difference("slowed by", str(was or "nothing"), str(now or "nothing"))


def _alike(was: object, now: object) -> bool:
    if isinstance(was, (int, float)) and isinstance(now, (int, float)):
        return abs(was - now) <= CLOCK_CHANGE * max(was, now)
    return was == now


def _conditions(run: Results) -> dict[str, dict[str, Any]]:
    """Clocks, power and throttling for each group with a timed copy; without what NVML did not report."""
    copies = (case for case in run.cases if case.status == record.CEILING and case.times)
    return {f"{c.kernel} {c.size} {c.dtype}": dict(c.condition) for c in copies}


def _mhz(value: object) -> str:
    return f"{value / 1e6:.0f} MHz" if isinstance(value, (int, float)) else UNKNOWN


def _text(value: object) -> str:
    return UNKNOWN if value is None else str(value)
