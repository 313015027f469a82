"""The roofline of one kernel, size and dtype: operations a second against operations a byte, below the roofs.

Points are cold times. Roofs are the best copy of the run, and by the data sheet the memory's bus and each unit for the
dtype. Where a number is not known there is a reason in the place of the chart.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod

from cudalab.base import numbers
from cudalab.base.errors import CudalabError
from cudalab.report.html.figures import Figure, name, ours, plain, styles
from cudalab.results import limit, record
from cudalab.results.record import Case, Machine, Results
from cudalab.spec import cuda_source, find, work
from cudalab.spec.architecture import ARCHITECTURES
from cudalab.spec.dtype import DTYPES
from cudalab.spec.kernel import Kernel
from cudalab.tools.inspect import cards

KIND = "cold"  # warm caches have other roofs
TERA = 1e12
WIDEST = 1e3  # factor that a drawn interval spans
MOST = 1e30  # of a rate or clock: a file may say anything


@dataclass(frozen=True)
class Roof:
    """A rate in bytes or operations per second, what it is of, and where the number comes from."""

    rate: float
    of: str
    why: str


def figure(run: Results, cases: list[Case]) -> Figure | str:
    """The roofline of a group's `cases`, or why it has none. The best copy is that of the whole run."""
    from cudalab.report.html.roofline_chart import Point, Slope, roofline

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
    at, style, points = flops / first.nbytes, styles(cases), []
    for case, timing in found:
        shortest, longest = timing.interval
        sure = longest < WIDEST * shortest  # of a single sample it is endless
        low, high = (flops / longest, flops / shortest) if sure else (flops / timing.median,) * 2
        rate = numbers.supported(flops / timing.median / TERA, timing.width, numbers.DERIVED)
        hint = f"{name(case, 80)}: {rate} TFLOP/s"
        points.append(Point(name(case), flops / timing.median, low, high, hint, style[case.label], ours(case)))
    slopes = [
        Slope(roof.rate, f"{words} {numbers.amount(roof.rate)}B/s", roof is copy)
        for roof, words in ((bus, "data sheet"), (copy, "measured copy"))
        if roof
    ]
    tops = [(peak.rate, f"{numbers.three(peak.rate / TERA)}T {peak.of}") for peak in peaks]
    says = f"Cold times. Fastest: {points[0].hint} at {numbers.three(at)} operations per byte"
    shares = _shares(points[0].rate, fastest.width, at, [roof for roof in (copy, bus) if roof], peaks)
    unknown = () if peaks else ("No peak of operations is known for this card and dtype",)
    notes = tuple(f"{roof.of[0].upper()}{roof.of[1:]}: {roof.why}" for roof in (copy, bus, *peaks) if roof)
    chart = roofline(at, points, slopes, tops)
    return Figure("roofline", "Roofline, cold", f"{', '.join([says, *shares])}.", chart, (*notes, *unknown))


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
