"""From results to figures: which numbers each chart shows, its title, and what it says in a sentence."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from cudalab.base import numbers, stats
from cudalab.base.text import visible
from cudalab.report import columns, plots
from cudalab.results import record
from cudalab.results.record import Case, Results

if TYPE_CHECKING:
    from cudalab.report.html.charts import Line, Spec, Strip
    from cudalab.results.sweep import Knee

Curve = tuple[tuple[float, ...], tuple[float | None, ...]]  # inputs and errors
OURS = ("pycuda", "cupy_raw", "host")  # backends that run the `.cu` itself
LONGEST = 22  # characters of a name beside a chart
EDGES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # reach of a chart of samples, as a share of the median
SWEEP = 3  # sizes from which a curve is fitted
NUMBER = {
    "cold": "cold",
    "hot": "hot",
    "graph": "graph",
    "graph_cold": "graph cold",
    "call": "call",
    "api": "api",
    "wall": "wall clock",
}
KINDS = {
    "cold": "one run, nothing of it in cache",
    "hot": "runs back to back, in cache if they fit",
    "graph": "a run in a replayed CUDA Graph, hot",
    "graph_cold": "a run in a replayed CUDA Graph, not in cache",
    "call": "host time for one call",
    "api": "host time for one call as a user makes it, with the allocation of its result",
    "wall": "wall clock of one call on the CPU",
}


RUNS = "a run, of many back to back until the last is done"  # the wall time of a study


def number(kind: str) -> str:
    """A kind of time in words; a study may have kinds of its own."""
    return NUMBER.get(kind) or plain(kind.replace("_", " "), 40)


@dataclass(frozen=True)
class Figure:
    """A chart with its title and what it says, which is also read out in its place; `notes`: lines below it."""

    name: str
    title: str
    says: str
    spec: Spec
    notes: tuple[str, ...] = ()


def plain(text: str, longest: int = 200) -> str:
    """One line of text from a file: nothing that acts, nothing that XML cannot hold, not longer than fits."""
    line = (
        visible(" ".join(text.split())) if len(text) < 10 * longest else visible(" ".join(text[: 10 * longest].split()))
    )
    line = "".join(c if unicodedata.category(c) != "Cn" else "\ufffd" for c in line)
    return line if len(line) <= longest else f"{line[: longest - 1]}\u2026"


def name(case: Case, longest: int = LONGEST) -> str:
    """A variant's name as the tables have it."""
    return plain(columns.name(case), longest)


def ours(case: Case) -> bool:
    """Whether a case ran the kernel's own `.cu`."""
    return case.backend in OURS


def role(case: Case) -> str:
    if case.status in (record.WRONG, record.ERROR):
        return "bad"
    return "copy" if case.status == record.CEILING else "ours" if ours(case) else "other"


def baseline(cases: Iterable[Case], kind: str, among: Sequence[str]) -> Case | None:
    """The case of a group that speed-ups refer to: the first of `among` that was timed."""
    timed = {name: case for case in cases if case.times.get(kind) for name in (case.backend, case.label)}
    return next((timed[backend] for backend in among if backend in timed), None)


def speedup(run: Results, cases: list[Case], kind: str = "") -> Figure | None:
    """How many times faster than the baseline each variant of a group is, with intervals and verdicts."""
    from cudalab.report.html.charts import Bar, bars

    kind = kind or run.main_kind
    base = baseline(cases, kind, columns.references(run))
    if base is None:
        return None
    than = plain(base.label, 40)
    rows, said = [], []
    for case in columns.ordered(run, cases):
        ratio = run.speedup(case, kind, base.label)
        if ratio is None:
            rows.append(Bar(name(case), _without(case), role=role(case)))
            continue
        value, word = numbers.factor(ratio.value), "" if case is base else ratio.verdict()
        interval = numbers.interval(ratio.low, ratio.high)
        hint = f"{name(case, 80)}: {value} ({interval}) times as fast as {than}{word and ': ' + word}"
        rows.append(Bar(name(case), f"{value} {word}", ratio.value, ratio.low, ratio.high, role(case), hint))
        said.append((ratio.value, hint))
    title = f"Speed-up over {than}, {number(kind)}"
    order = "" if run.of_study else "Fastest first, with "
    says = f"{order}95 % intervals. {max(said)[1] if run.of_study else said[0][1]}." if said else ""
    return Figure("speedup", title, says, bars(rows, f"times as fast as {than}", rule=1))


def times(run: Results, cases: list[Case], kind: str) -> Figure | None:
    """One kind of time of each variant of a group, in microseconds; a study's in what suits it."""
    from cudalab.report.html.charts import Bar, bars

    if not any(case.times.get(kind) for case in cases):
        return None
    rows = []
    unit, seconds = columns.unit(run, cases, kind)
    per = 1 / seconds
    for case in columns.ordered(run, cases):
        value = case.median(kind)
        if value is None:
            rows.append(Bar(name(case), _without(case), role=role(case)))
            continue
        low, high = (per * end for end in stats.median_interval(case.times[kind]))
        marks = columns.marks(run, case, cases) if kind == run.main_kind else ""
        shown = numbers.supported(per * value, stats.relative_width(case.times[kind]))
        text = f"{shown} {marks}".strip()
        hint = f"{name(case, 80)}: {text} {unit} ({numbers.significant(low, 4)} to {numbers.significant(high, 4)})"
        rows.append(Bar(name(case), text, per * value, low, high, role(case), hint))
    best = min(
        (r for r in rows if r.value is not None and r.role != "copy"), key=lambda r: r.value or inf, default=None
    )
    what = RUNS if run.of_study and kind == "wall" else KINDS.get(kind, "")
    says = f"{f'{_upper(what)}. ' if what else ''}{f'Shortest: {best.hint}.' if best else ''}".strip()
    return Figure(kind, f"{_upper(number(kind))} time", says, bars(rows, f"median {unit}, {number(kind)}"))


def samples(run: Results, cases: list[Case], kind: str = "") -> Figure | None:
    """Every sample of each variant of a group, as deviation from the variant's own median."""
    from cudalab.report.html.charts import samples as chart

    kind = kind or run.main_kind
    timed = [case for case in columns.ordered(run, cases) if case.times.get(kind)]
    if not timed:
        return None
    deviations = [plots.deviations(case, kind) for case in timed]
    reach = float(np.percentile(np.abs(np.concatenate(deviations)), 99))
    edge = next((e for e in EDGES if e >= reach), EDGES[-1])
    rows = [_strip(case, kind, d, edge) for case, d in zip(timed, deviations)]
    noisy = [row.name for row in rows if row.noisy]
    word = f"Two groups of samples, or a wide interval: {', '.join(noisy)}." if noisy else "None falls into two groups."
    says = f"All {sum(map(len, deviations)):,} samples; each row is scaled to its own median. {word}"
    axis = f"% from the variant's own median, {number(kind)}"
    return Figure("samples", f"Samples, {number(kind)}", says, chart(rows, axis, edge))


def _strip(case: Case, kind: str, deviations: np.ndarray, edge: float) -> Strip:
    from cudalab.report.html.charts import Strip

    beyond = int(np.count_nonzero(np.abs(deviations) > edge))
    values = stats.flat(case.times[kind]) * 1e6
    two = stats.bimodal(case.times[kind])
    wide = stats.relative_width(case.times[kind]) > columns.NOISY
    state = "two groups" if two else "wide" if wide else f"{beyond} beyond" if beyond else ""
    text = f"{len(values)}{state and ', ' + state}"
    low, high = (numbers.significant(float(v), 4) for v in (values.min(), values.max()))
    hint = f"{name(case, 80)}: {len(values)} samples from {low} to {high} \u00b5s"
    hint += f", {beyond} of them beyond {edge:.0%}" if beyond else ""
    return Strip(
        name(case), deviations.tolist(), text, role(case), hint + (f"; {state}" if two or wide else ""), two or wide
    )


def styles(cases: Iterable[Case]) -> dict[str, int]:
    """A place among the styles of lines for each variant, ours first: the same in all charts of these cases."""
    shown = [case for case in cases if case.status not in (record.CEILING, record.SKIPPED)]
    labels = dict.fromkeys(case.label for case in sorted(shown, key=lambda case: not ours(case)))
    return {label: i for i, label in enumerate(labels)}


def bandwidth(run: Results, cases: list[Case], kind: str = "") -> Figure | None:
    """GB/s over the bytes moved, of one kernel and dtype at two sizes or more."""
    from cudalab.report.html.charts import Line, Mark, over_sizes

    kind = kind or run.main_kind
    found: dict[str, list[Case]] = {}
    for case in cases:
        if case.times.get(kind) and case.nbytes:
            found.setdefault(case.label, []).append(case)
    if len({case.nbytes for held in found.values() for case in held}) < 2:
        return None
    style, lines = styles(cases), []
    for label, held in found.items():
        held.sort(key=lambda case: case.nbytes)
        rates = [(float(c.nbytes), (c.bandwidth(kind) or 0.0) / 1e9) for c in held]
        hints = [
            f"{name(c, 80)} at {plain(c.size, 40)}: {numbers.three(rate)} GB/s" for c, (_, rate) in zip(held, rates)
        ]
        copy = held[0].status == record.CEILING
        lines.append(Line(name(held[0]), rates, hints, style.get(label, 0), ours(held[0]), copy))
    l2 = run.machine.details.get("l2_bytes")
    marks = (
        [Mark(float(l2), f"L2 {l2 / 2**20:.0f} MiB")] if isinstance(l2, int) and run.machine.device == "cuda" else []
    )
    best = _best(cases, kind)
    knees = _knees(run, [case for case in cases if case.label == best], kind)
    marks += [Mark(knee.half, "half rate") for knee in knees]
    notes = (*map(_said, knees), *_overtaken(run, cases, kind, best))
    return Figure(
        f"bandwidth_{kind}", f"Bandwidth against size, {NUMBER[kind]}", _highest(lines),
        over_sizes(lines, marks, ("bytes moved (read and written)", "GB/s")), notes,
    )  # fmt: skip


def _highest(lines: Sequence[Line]) -> str:
    best = max((line for line in lines if not line.ceiling), key=lambda line: line.points[-1][1], default=None)
    return f"At the largest size: {best.hints[-1]}." if best else ""


def _best(cases: list[Case], kind: str) -> str:
    """Label of the fastest of ours at the largest size, or nothing where a curve is not to be had."""
    timed = [case for case in cases if case.times.get(kind)]
    largest = max(case.nbytes for case in timed)
    mine = [case for case in timed if ours(case) and case.nbytes == largest]
    few = len({case.nbytes for case in timed}) < SWEEP
    return "" if few or not mine else min(mine, key=lambda case: case.median(kind) or inf).label


def _knees(run: Results, cases: list[Case], kind: str) -> list[Knee]:
    """Where launch cost ends and bandwidth begins."""
    from cudalab.results import sweep

    return sweep.half_performance(part(run, cases), kind)


def _said(knee: Knee) -> str:
    return (
        f"{plain(knee.label, 80)}: {numbers.three(1e6 * knee.overhead)} \u00b5s that any size costs, then "
        f"{numbers.three(knee.rate / 1e9)} GB/s; half of that is reached at {numbers.amount(knee.half)}B"
    )


def _overtaken(run: Results, cases: list[Case], kind: str, best: str) -> list[str]:
    """Whom the best of ours overtakes as sizes grow, and who overtakes it."""
    from cudalab.results import sweep

    others = dict.fromkeys(c.label for c in cases if c.status != record.CEILING and c.label != best and best)
    places: dict[tuple[int, int, bool], list[str]] = {}
    for other in others:
        for c in sweep.crossings(part(run, [case for case in cases if case.label in (best, other)]), kind):
            places.setdefault((c.below, c.above, c.faster == best), []).append(plain(other, 80))
    return [
        f"{plain(best, 80)} {'overtakes' if ahead else 'is overtaken by'} {', '.join(names)} "
        f"between {below:,} and {above:,} elements"
        for (below, above, ahead), names in sorted(places.items())
    ]


def accuracy(run: Results, cases: list[Case]) -> Figure | None:
    """The largest error of each variant of one kernel and dtype in a run that checked."""
    from cudalab.report.html.charts import Bar, bars

    found = []
    for cells, held in columns.check_rows(part(run, cases)):
        if any(c.parity for c in held):
            largest = max(inf if c.parity.max_ulp is None else c.parity.max_ulp for c in held if c.parity)
            found.append((largest, dict(zip(columns.CHECK_HEADERS, cells)), held[0]))
    if not found:
        return None
    found.sort(key=lambda row: row[0])
    most = max((largest for largest, _, _ in found if largest < inf), default=0.0)
    shown = []
    for largest, said, case in found:
        bad = said["verdict"] != "right"
        text = f"{said['max ULP']}, {said['verdict'] if bad else said['rounded']}"
        hint = (
            f"{name(case, 80)}: {said['verdict']}, largest error {said['max ULP']} ULP, {said['rounded']} rounded right"
        )
        value = min(largest, 10 * max(most, 1.0))  # an infinite one is longer than all others
        shown.append(Bar(name(case), text, value, None, None, "bad" if bad else role(case), hint))
    elements = max(c.parity.n for c in cases if c.parity)
    says = f"Against float64, at up to {elements:,} values at once. Smallest: {shown[0].hint}."
    chart = bars(shown, "largest error, ULP", symlog=1)
    return Figure("accuracy", "Largest error, and share rounded correctly", says, chart)


def part(run: Results, cases: list[Case]) -> Results:
    """The run with these cases alone."""
    import msgspec

    return msgspec.structs.replace(run, cases=cases)


def error(run: Results, cases: list[Case]) -> Figure | None:
    """The error against the input, of kernels of one 16-bit input."""
    from cudalab.report.html.charts import Line, errors

    found: dict[Curve, list[Case]] = {}
    for case in sorted(cases, key=lambda c: not ours(c)):
        curve = case.parity.curve if case.parity else None
        if curve and curve.x:
            found.setdefault((tuple(curve.x), tuple(curve.ulp)), []).append(case)
    if not found:
        return None
    low, high = _interesting(found)
    style, lines, notes = styles(cases), [], []
    for (x, ulp), held in found.items():
        more = f" +{len(held) - 1}" if len(held) > 1 else ""
        label = name(held[0], LONGEST - 2 - len(more)) + more
        points = [(a, e) for a, e in zip(x, ulp) if e is not None and low <= a <= high]
        absent = [a for a, e in zip(x, ulp) if e is None]
        if points:
            lines.append(
                Line(
                    label,
                    points,
                    (),
                    style[held[0].label],
                    ours(held[0]),
                    False,
                    sorted({min(max(a, low), high) for a in absent}),
                )
            )
        if more:
            notes.append(f"{label}: the same errors as {', '.join(name(c, 80) for c in held[1:])}")
        if absent:
            ends = dict.fromkeys(f"{end(absent):.4g}" for end in (min, max))
            notes.append(f"{label}: NaN or infinity where a number was due, at {' to '.join(ends)}")
    if not lines:
        return None
    says = "; ".join(f"{line.name} at most {numbers.compact(max(e for _, e in line.points))} ULP" for line in lines)
    trimmed = f" Shown from {low:.3g} to {high:.3g}: outside, every number is within half a ULP."
    chart = errors(lines, ("input", "error, ULP"), (0.01, 1.0))
    return Figure(
        "error",
        "Error against the input",
        f"Each name stands at its largest error. {says}.{trimmed}",
        chart,
        tuple(notes),
    )


def _interesting(found: Iterable[Curve]) -> tuple[float, float]:
    """Inputs between which some variant is off by more than a rounding, with a tenfold margin."""
    off = [a for x, ulp in found for a, e in zip(x, ulp) if e is not None and e > 0.5]
    ends = [a for x, _ in found for a in (x[0], x[-1])]
    if not off:
        return min(ends), max(ends)
    return max(min(*off, -1.0) * 10, min(ends)), min(max(*off, 1.0) * 10, max(ends))


def _without(case: Case) -> str:
    """What stands where a bar would be."""
    if case.status in (record.WRONG, record.ERROR):
        return f"{case.status}: no time"
    return "right, not timed" if case.parity and case.parity.ok else "not timed"


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
