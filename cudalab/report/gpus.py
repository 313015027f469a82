"""Which GPUs a run over several of them used, as lines below its tables."""

from __future__ import annotations

from collections.abc import Iterable

from cudalab.base import numbers
from cudalab.results.record import Place, Results

NAMED = 3  # lost tries that are named


def lines(run: Results) -> list[str]:
    """What each GPU did, and which groups were lost on one and done on another; [] for a run on one GPU."""
    if not run.places:
        return []
    by_gpu: dict[tuple[str, str], list[Place]] = {}
    for place in run.places:
        by_gpu.setdefault((place.gpu, place.host), []).append(place)
    one, many = ("GPU", "GPUs") if run.machine.device == "cuda" else ("actor on a CPU", "actors on CPUs")
    kind = one if len(by_gpu) == 1 else many
    spent = sum(place.seconds for place in run.places)
    total = numbers.duration(run.wall["total"]) if run.wall.get("total") else "an unknown time"
    found = [
        f"{len(by_gpu)} {kind}; each kernel, size and dtype is from one: {numbers.duration(spent)} of work in {total}"
    ]
    found += [f"{gpu} on {host}: {_did(places)}" for (gpu, host), places in sorted(by_gpu.items())]
    lost = [(place, text) for place in run.places for text in place.lost]
    found += [f"lost: {place.kernel} {place.size} {place.dtype} on {text}" for place, text in lost[:NAMED]]
    return found + ([f"lost: {len(lost) - NAMED} more; they are in `places` of the file"] if lost[NAMED:] else [])


def _did(places: list[Place]) -> str:
    seconds = numbers.duration(sum(place.seconds for place in places))
    clocks = _range(places, "sm_hz", 1e-6, "MHz")
    heat = _range(places, "temperature_c", 1.0, "\N{DEGREE SIGN}C")
    groups = f"{len(places)} group{'' if len(places) == 1 else 's'}"
    return ", ".join(text for text in (groups, seconds, clocks, heat) if text)


def _range(places: Iterable[Place], field: str, unit: float, name: str) -> str:
    """The least and the largest of a condition; "" where none was read."""
    read = [value * unit for place in places if isinstance(value := place.condition.get(field), (int, float))]
    if not read:
        return ""
    low, high = f"{min(read):,.0f}", f"{max(read):,.0f}"
    return f"{low} {name}" if low == high else f"{low} to {high} {name}"
