"""The roofline of one kernel, size and dtype: operations a second against operations a byte, below the roofs.

Points are cold times. Roofs are the best copy of the run, and by the data sheet the memory's bus and each unit for the
dtype. Where a number is not known there is a reason in the place of the chart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import TYPE_CHECKING

import msgspec

from cudalab.base import numbers, stats
from cudalab.base.errors import CudalabError
from cudalab.base.memo import kept
from cudalab.report.html import text_width
from cudalab.report.html.figures import Figure, name, ours, plain, styles
from cudalab.report.html.paper import NAMED, SIZE
from cudalab.results import limit, record, rivals
from cudalab.results.record import Case, Machine, Results
from cudalab.spec import cuda_source, find, work
from cudalab.spec.architecture import ARCHITECTURES
from cudalab.spec.dtype import DTYPES
from cudalab.spec.kernel import Kernel
from cudalab.tools.inspect import cards

if TYPE_CHECKING:
    from cudalab.base.stats import Timing
    from cudalab.report.html.roofline_chart import Point

KIND = "cold"  # warm caches have other roofs
TERA, GIGA = 1e12, 1e9
WIDEST = 1e3  # factor that a drawn interval spans
TOGETHER = 8.0  # pixels between points of several kernels that are one group
MOST = 1e30  # of a rate or clock: a file may say anything


Part = tuple[Results, list[Case]]  # a run, and the cases of one of its groups


@dataclass(frozen=True)
class Roof:
    """A rate in bytes or operations per second, what it is of, and where the number comes from."""

    rate: float
    of: str
    why: str


def figure(run: Results, cases: list[Case]) -> Figure | str:
    """The roofline of a group's `cases`, or why it has none. The best copy is that of the whole run."""
    found = [(c, timing) for c in cases if c.status == record.OK and (timing := c.timing(KIND))]
    if run.of_study or not found:
        return "it needs cold times, which `cudalab bench` takes on a GPU"
    found.sort(key=lambda pair: pair[1].median)
    first, fastest = found[0]
    flops, why = operations(run, first)
    copy, bus, peaks = best_copy(run), memory_bus(run.machine), units(run.machine, first.dtype)
    if not flops:
        return why
    if not first.nbytes:
        return "the bytes of a run are not counted"
    if not (copy or bus):
        return "no roof is known: the run timed no copy, and the lab does not know the card"
    at, style = flops / first.nbytes, styles(cases)
    points = [_point(name(case), at, flops, case, timing, style[case.label], ours(case)) for case, timing in found]
    slopes = [roof for roof in (copy, bus) if roof]
    says = f"Cold times. Fastest: {points[0].hint} at {numbers.three(at)} operations per byte"
    said = ", ".join([says, *_shares(points[0].rate, fastest.width, at, slopes, peaks)])
    return _drawn("Roofline, cold", f"{said}.", points, copy, bus, peaks)


def every(parts: Sequence[Part]) -> list[Figure]:
    """The rooflines of several kernels of one card, each kernel below the roof that limits it: bytes a second, and for
    each dtype operations a second of the kernels whose operations take longer than their bytes. `parts` are groups of
    all sizes.
    """
    found: dict[tuple[int, str], list[tuple[Results, list[Case], Case]]] = {}
    for run, cases in parts:
        case = rivals.ours(run, cases, KIND)
        if case and case.nbytes:
            found.setdefault((id(run), f"{case.kernel}, {case.dtype}"), []).append((run, cases, case))
    machine = parts[0][0].machine
    runs = list({id(run): run for run, _ in parts}.values())
    copies = [roof for run in runs if (roof := best_copy(run))]
    copy, bus = max(copies, key=lambda roof: roof.rate, default=None), memory_bus(machine)
    if not (copy or bus):
        return []
    operating: dict[str, list[tuple[Case, int]]] = {}
    moving: dict[str, list[list[Case]]] = {}
    for held in found.values():
        run, _, last = max(held, key=lambda one: one[2].nbytes)
        flops, _ = operations(run, last)
        if flops and limit.computes(msgspec.structs.replace(last, flops=flops), machine):
            operating.setdefault(last.dtype, []).append((last, flops))
        else:
            moving.setdefault(last.kernel, []).append([case for _, _, case in held])
    drawn = [_all_bytes(list(moving.values()), copy, bus, runs)] if moving else []
    return drawn + [
        _all_operations(cases, dtype, copy, bus, units(machine, dtype)) for dtype, cases in operating.items()
    ]


def _all_bytes(
    kernels: Sequence[Sequence[Sequence[Case]]], copy: Roof | None, bus: Roof | None, runs: Sequence[Results]
) -> Figure:
    """Bytes a second over bytes, of our entry at each size of each dtype of each of `kernels`."""
    from cudalab.report.html.roofline_chart import Slope, roofline

    top = (bus or copy).rate  # type: ignore[union-attr]
    points, said = [], []
    for i, by_dtype in enumerate(kernels):
        largest = [max(cases, key=lambda case: case.nbytes) for cases in by_dtype]
        shares = sorted(100 * (case.bandwidth(KIND) or 0.0) / top for case in largest)
        percent = " to ".join(dict.fromkeys(f"{share:.0f}" for share in (shares[0], shares[-1])))
        kernel, named = plain(by_dtype[0][0].kernel, 40), max(largest, key=lambda case: case.nbytes)
        said.append(f"{kernel} {percent} %")
        for case in (case for cases in by_dtype for case in cases):
            timing = case.timing(KIND)
            assert timing
            label = text_width.cut(kernel, NAMED, SIZE, bold=True) if case is named else ""
            points.append(_point(label, float(case.nbytes), case.nbytes, case, timing, i, True))
    empty = [stats.median([v]) for run in runs for v in (run.calibration.get("empty kernel"),) if v]
    first = min([*empty, *(c.median(KIND) or inf for kernel in kernels for cases in kernel for c in cases)])
    start = Slope(1 / first, f"{'an empty kernel' if empty and first == min(empty) else 'the shortest run'}", True)
    peaks = [(roof.rate, f"{words} {numbers.amount(roof.rate)}B/s")
             for roof, words in ((bus, "data sheet"), (copy, "copy")) if roof]  # fmt: skip
    says = (
        "Ours, cold, at each size and dtype, below the memory's rate and the time of a start. A name stands at its "
        "kernel's largest size; kernels whose points lie on each other have one label. Rate there, of "
        f"{'the data sheet' if bus else 'the copy'}: {', '.join(said)}."
    )
    chart = roofline(points, [start], peaks, ("bytes moved (read and written)", "bytes per second"), TOGETHER)
    title = "Roofline" if len(kernels) == 1 else "Roofline of all kernels"
    return Figure("roofline", f"{title}, bytes", says, chart, _why(copy, bus))


def _all_operations(
    found: Sequence[tuple[Case, int]], dtype: str, copy: Roof | None, bus: Roof | None, peaks: Sequence[Roof]
) -> Figure:
    """The points of kernels whose operations are the limit."""
    points = []
    for i, (case, flops) in enumerate(sorted(found, key=lambda one: one[1] / one[0].nbytes)):
        timing = case.timing(KIND)
        assert timing
        points.append(_point(plain(case.kernel, 40), flops / case.nbytes, flops, case, timing, i, True))
    says = "Ours at the largest size, cold. Kernels whose points lie on each other have one label."
    return _drawn(f"Roofline, operations, {plain(dtype, 20)}", says, points, copy, bus, peaks)


def _point(label: str, at: float, amount: int, case: Case, timing: Timing, style: int, emphasis: bool) -> Point:
    """The rate of a case of which a run does `amount` operations, or moves that many bytes."""
    from cudalab.report.html.roofline_chart import Point

    shortest, longest = timing.interval
    sure = longest < WIDEST * shortest  # of a single sample it is endless
    low, high = (amount / longest, amount / shortest) if sure else (amount / timing.median,) * 2
    scale, unit = (GIGA, "GB/s") if amount == case.nbytes else (TERA, "TFLOP/s")
    rate = numbers.supported(amount / timing.median / scale, timing.width, numbers.DERIVED)
    where = f", {plain(case.size, 40)}, {plain(case.dtype, 20)}" if amount == case.nbytes else ""
    return Point(
        label, at, amount / timing.median, low, high, f"{name(case, 80)}{where}: {rate} {unit}", style, emphasis
    )


def _drawn(
    title: str, says: str, points: Sequence[Point], copy: Roof | None, bus: Roof | None, peaks: Sequence[Roof]
) -> Figure:
    from cudalab.report.html.roofline_chart import Slope, roofline

    slopes = [
        Slope(roof.rate, f"{words} {numbers.amount(roof.rate)}B/s", roof is copy)
        for roof, words in ((bus, "data sheet"), (copy, "measured copy"))
        if roof
    ]
    tops = [(peak.rate, f"{numbers.three(peak.rate / TERA)}T {peak.of}") for peak in peaks]
    unknown = () if peaks else ("No peak of operations is known for this card and dtype",)
    return Figure("roofline", title, says, roofline(points, slopes, tops), (*_why(copy, bus, *peaks), *unknown))


def _why(*roofs: Roof | None) -> tuple[str, ...]:
    """Say where the number of each roof comes from."""
    return tuple(f"{roof.of[0].upper()}{roof.of[1:]}: {roof.why}" for roof in roofs if roof)


@kept
def operations(run: Results, case: Case) -> tuple[int, str]:
    """The operations of a case's task, or 0 and why they are not known.

    For a file that is older than the count, they come from the lab's spec, if the kernel is still the same.
    """
    uncounted = 0, "the spec does not count operations; give flops="
    if case.flops or case.written is not None:
        return (case.flops, "") if case.flops else uncounted
    kernel = find.kernels().get(case.kernel)
    if kernel is None:
        return 0, "the file does not record operations, and the lab has no kernel of this name"
    return _counted(run, case, kernel) if kernel.flops else uncounted


def _counted(run: Results, case: Case, kernel: Kernel) -> tuple[int, str]:
    """The operations by today's spec, if its `.cu`, and the bytes of a run, are those of the file."""
    older = "the file does not record operations, and"
    if run.sources.get(kernel.cu.name) != cuda_source.digest(kernel.cu):
        return 0, f"{older} {kernel.cu.name} has changed since it was measured"
    if case.shape not in kernel.sizes.values():  # others could be so large that no memory holds them
        return 0, f"{older} the spec has no such size"
    try:
        dtype = DTYPES[case.dtype]
        arrays = kernel.make(case.shape, dtype)
        shapes = {name: array.shape for name, array in arrays.items()}
        results = sum(prod(kernel.shape_of(n, shapes)) * kernel.kind_of(n, dtype).itemsize for n in kernel.outs)
        found = work.amount(kernel, arrays, results)
    except (CudalabError, KeyError):  # of a dtype that the spec does not take
        return 0, f"{older} the spec makes no inputs of this dtype"
    if found.nbytes != case.nbytes:
        return 0, f"{older} its runs move {case.nbytes:,} bytes, and the spec counts {found.nbytes:,}"
    return found.flops, ""


def best_copy(run: Results) -> Roof | None:
    """The fastest copy that the run timed, of whatever size."""
    copies = [c for c in run.cases if c.status == record.CEILING and c.bandwidth(KIND)]
    best = max(copies, key=lambda case: case.bandwidth(KIND) or 0.0, default=None)
    if best is None:
        return None
    what = f"{plain(best.kernel, 40)}, {plain(best.dtype, 20)}, {plain(best.size, 40)}"
    why = f"the fastest copy of this run, of {numbers.amount(best.nbytes)}B ({what}), cold"
    return Roof(best.bandwidth(KIND) or 0.0, "the measured copy", why)


def memory_bus(machine: Machine) -> Roof | None:
    """What the memory's bus moves, by the driver's attributes or the card's data sheet."""
    what, card = "the data sheet's bandwidth", cards.of_machine(machine.name)
    if 0 < (rate := limit.bus(machine)) < MOST:
        return Roof(rate, what, "the memory's clock x bus width x 2 / 8, as the driver reports them")
    return Roof(card.bandwidth, what, card.source) if card else None


def units(machine: Machine, dtype: str) -> list[Roof]:
    """The peak of each unit for a dtype, the fastest first, at the highest clock; none where a number is not known."""
    details, card = machine.details, cards.of_machine(machine.name)
    known = ARCHITECTURES.get(f"sm_{str(details.get('compute_capability', '')).replace('.', '')}")
    told = limit.number(machine, "sm_clock_hz")
    clock = told or (card.clock if card else 0.0)
    sms = limit.number(machine, "multiprocessors")
    if not (known and 0 < clock < MOST and 0 < sms < MOST):
        return []
    whose = "as the driver reports it" if told or not card else card.source
    at = f"{sms:.0f} multiprocessors at {numbers.significant(clock / 1e6, 4)} MHz ({whose})"
    rates = [(a_cycle * sms * clock, a_cycle, unit) for a_cycle, unit in sorted(known.units(dtype), reverse=True)]
    return [
        Roof(rate, unit, f"{numbers.three(rate / TERA)} TFLOP/s, {a_cycle:,} per cycle in each of {at}")
        for rate, a_cycle, unit in rates
    ]


def _shares(rate: float, width: float, at: float, slopes: list[Roof], peaks: list[Roof]) -> list[str]:
    """The rate in percent of each roof above it, the lowest first: of slopes where they are below the highest peak."""
    top = max((peak.rate for peak in peaks), default=inf)
    slanted = [(roof.rate * at, roof.of) for roof in slopes if roof.rate * at < top]
    lowest = min((allowed for allowed, _ in slanted), default=inf)
    found = sorted([*slanted, *((peak.rate, f"the peak of {peak.of}") for peak in peaks if peak.rate < lowest)])
    return [f"{numbers.supported(100 * rate / allowed, width, numbers.DERIVED)} % of {of}" for allowed, of in found]
