"""Which GPUs a run over several of them used, and how they differ, as lines below its tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from cudalab.base import numbers
from cudalab.results.record import Place, Results

NAMED = 3  # lost tries that are named
FEWEST = 4  # GPUs of which one can be told to stand apart
APART = 0.01  # an outlier is further from the median than this share of it,
DEVIATIONS = 5.0  # and than so many deviations
TITLE = "How the GPUs differ"
HEADERS = ["case", "variant", "GPUs", "median \u00b5s", "fastest", "slowest", "outliers"]


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
    found = [f"{named(run, len(by_gpu))}; {what} is from {whose}: {work}"]
    if elsewhere := len(run.groups().keys() - {(place.kernel, place.size, place.dtype) for place in run.places}):
        found.append(f"{elsewhere} more {'is' if elsewhere == 1 else 'are'} from a continuation with --gpus none")
    found += [f"{gpu} on {host}: {_did(places)}" for (gpu, host), places in sorted(by_gpu.items())]
    lost = [(place, text) for place in run.places for text in place.lost]
    found += [f"lost: {place.kernel} {place.size} {place.dtype} on {text}" for place, text in lost[:NAMED]]
    found += [
        f"outlier: {gpu}: {100 * (one.measured[gpu] / one.median - 1):+.1f} % at {one.case} {one.label}"
        for one in differences(run)
        for gpu in one.apart
    ]
    return found + ([f"lost: {len(lost) - NAMED} more; they are in `places` of the file"] if lost[NAMED:] else [])


def named(run: Results, count: int) -> str:
    """So many GPUs, or actors on a CPU."""
    one, many = ("GPU", "GPUs") if run.machine.device == "cuda" else ("actor on a CPU", "actors on CPUs")
    return f"{count} {one if count == 1 else many}"


@dataclass(frozen=True)
class Difference:
    """A case that several GPUs measured. `measured`: median seconds by GPU; `low`, `high`: ends, as shares beyond
    `median`.
    """

    case: str  # kernel, size and dtype
    label: str
    measured: Mapping[str, float]
    median: float
    apart: Sequence[str]  # the GPUs that are outliers

    @property
    def low(self) -> float:
        return min(self.measured.values()) / self.median - 1

    @property
    def high(self) -> float:
        return max(self.measured.values()) / self.median - 1


def differences(run: Results) -> list[Difference]:
    """How the GPUs of a run differ, by case and variant, in the run's order; [] where not each measured everything."""
    shown = {(*case.group, case.label) for case in run.cases}
    by_case: dict[tuple[str, str], dict[str, float]] = {}
    for place in run.places:
        for label, seconds in place.medians.items():
            if (place.kernel, place.size, place.dtype, label) in shown:
                case = f"{place.kernel} {place.size} {place.dtype}"
                by_case.setdefault((case, label), {})[f"{place.gpu} on {place.host}"] = seconds
    several = {key: measured for key, measured in by_case.items() if len(measured) > 1}
    return [Difference(*key, measured, *outliers(measured)) for key, measured in several.items()]


def table(run: Results) -> tuple[list[str], list[list[str]]]:
    """(headers, rows) of `differences`: texts."""
    return HEADERS, [
        [one.case, one.label, str(len(one.measured)), microseconds(one.median), f"{100 * one.low:+.1f} %",
         f"{100 * one.high:+.1f} %", str(len(one.apart)) if len(one.measured) >= FEWEST else "-"]
        for one in differences(run)
    ]  # fmt: skip


def microseconds(seconds: float) -> str:
    """With four digits, without the unit."""
    return numbers.significant(1e6 * seconds, 4)


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
