"""Which GPUs a run over several of them used, and how they differ, as lines below its tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median

from cudalab.base import numbers
from cudalab.results.record import Place, Results

NAMED = 3  # lost tries that are named
FEWEST = 4  # GPUs of which one can be told to stand apart
APART, DEVIATIONS = (
    0.01,
    5.0,
)  # an outlier is further from the median than this share of it, and than so many deviations


def lines(run: Results) -> list[str]:
    """What each GPU did, and which groups were lost on one and done on another; [] for a run on one GPU."""
    if not run.places:
        return []
    by_gpu: dict[tuple[str, str], list[Place]] = {}
    for place in run.places:
        by_gpu.setdefault((place.gpu, place.host), []).append(place)
    spent = sum(place.seconds for place in run.places)
    total = numbers.duration(run.wall["total"]) if run.wall.get("total") else "an unknown time"
    whose = "all that could" if run.options.get("every_gpu") else "one"
    what = "each size" if run.of_study else "each kernel, size and dtype"
    work = f"{numbers.duration(spent)} of work in {total}"
    found = [f"{_named(run, len(by_gpu))}; {what} is from {whose}: {work}"]
    if elsewhere := len(run.groups().keys() - {(place.kernel, place.size, place.dtype) for place in run.places}):
        found.append(f"{elsewhere} more {'is' if elsewhere == 1 else 'are'} from a continuation with --gpus none")
    found += [f"{gpu} on {host}: {_did(places)}" for (gpu, host), places in sorted(by_gpu.items())]
    lost = [(place, text) for place in run.places for text in place.lost]
    found += [f"lost: {place.kernel} {place.size} {place.dtype} on {text}" for place, text in lost[:NAMED]]
    found += _differences(run)
    return found + ([f"lost: {len(lost) - NAMED} more; they are in `places` of the file"] if lost[NAMED:] else [])


def _named(run: Results, count: int) -> str:
    one, many = ("GPU", "GPUs") if run.machine.device == "cuda" else ("actor on a CPU", "actors on CPUs")
    return f"{count} {one if count == 1 else many}"


def _differences(run: Results) -> list[str]:
    """Of each case that several measured: the median over them, how far they spread, and which stands apart."""
    by_case: dict[str, dict[str, float]] = {}
    for place in run.places:
        for label, seconds in place.medians.items():
            case = f"{place.kernel} {place.size} {place.dtype} {label}"
            by_case.setdefault(case, {})[f"{place.gpu} on {place.host}"] = seconds
    found = []
    for case, measured in by_case.items():
        middle, apart = outliers(measured)
        if len(measured) > 1:
            low, high = (f"{100 * (end(measured.values()) / middle - 1):+.1f}" for end in (min, max))
            text = numbers.significant(1e6 * middle, 4)
            found.append(f"{case}: median of {_named(run, len(measured))} {text} \u00b5s, spread {low} to {high} %")
        found += [f"outlier: {gpu}: {100 * (measured[gpu] / middle - 1):+.1f} % at {case}" for gpu in apart]
    return found


def outliers(measured: Mapping[str, float]) -> tuple[float, list[str]]:
    """The median of all, and the GPUs that are further from it than others: of few GPUs, none can be told."""
    middle = median(measured.values())
    usual = median(abs(seconds - middle) for seconds in measured.values())  # 1.48 times this is a deviation
    limit = max(DEVIATIONS * 1.4826 * usual, APART * middle)
    far = [gpu for gpu, seconds in measured.items() if abs(seconds - middle) > limit]
    return middle, far if len(measured) >= FEWEST else []


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
