"""Takes the numbers of each chart from results, and writes its title and its sentence."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from cudalab.base import numbers, stats
from cudalab.base.text import visible
from cudalab.report import columns, plots
from cudalab.report.html import text_width
from cudalab.report.html.paper import NAMED, SIZE
from cudalab.results import marks, record
from cudalab.results.record import Case, Results

if TYPE_CHECKING:
    from cudalab.report.html.charts import Strip

OURS = ("pycuda", "cupy_raw", "host")  # backends that run the `.cu`
BEYOND = 3  # a copy that is so many times as fast as all variants has no bar: theirs would be too short to compare
EDGES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # half widths of a chart of samples, as shares of the median
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
    "cold": "one run, none of its data in cache",
    "hot": "runs back to back, in cache if they fit",
    "graph": "a run in a replayed CUDA Graph, hot",
    "graph_cold": "a run in a replayed CUDA Graph, not in cache",
    "call": "host time for a launch that writes into an existing array",
    "api": "host time for one call as a user makes it, with the allocation of its result",
    "wall": "wall clock of one call on the CPU",
}


RUNS = "many runs back to back until the last has ended, divided by their number"  # the wall time of a study


def number(kind: str) -> str:
    """A kind of time in words; a study may have its own kinds."""
    return NUMBER.get(kind) or plain(kind.replace("_", " "), 40)


@dataclass(frozen=True)
class Figure:
    """A chart as SVG, its title, and a sentence that screen readers read in its place; `notes`: lines below it."""

    name: str
    title: str
    says: str
    svg: str
    notes: tuple[str, ...] = ()


def plain(text: str, longest: int = 200) -> str:
    """Text from a file as one line without control characters or what XML forbids, cut to `longest` characters."""
    line = (
        visible(" ".join(text.split())) if len(text) < 10 * longest else visible(" ".join(text[: 10 * longest].split()))
    )
    line = "".join(c if unicodedata.category(c) != "Cn" else "\ufffd" for c in line)
    return line if len(line) <= longest else f"{line[: longest - 1]}\u2026"


def name(case: Case, longest: int = 0, room: float = NAMED) -> str:
    """A variant's name, as in the tables, of `longest` characters; without them as wide as a chart has room for."""
    full = plain(columns.name(case), longest or 80)
    return full if longest else text_width.cut(full, room, SIZE, bold=True)


def ours(case: Case) -> bool:
    """Say whether a case ran the kernel's `.cu`."""
    return case.backend in OURS


def role(case: Case) -> str:
    if case.status in record.BROKEN:
        return "bad"
    return "copy" if case.status == record.CEILING else "ours" if ours(case) else "other"


def baseline(cases: Iterable[Case], kind: str, among: Sequence[str]) -> Case | None:
    """The case of a group that speed-ups refer to: the first of `among`, backends or labels, that was timed."""
    timed = {name: case for case in cases if case.times.get(kind) for name in (case.backend, case.label)}
    return next((timed[backend] for backend in among if backend in timed), None)


def speedup(run: Results, cases: list[Case], kind: str = "") -> Figure | None:
    """Speed-ups of a group's variants over the baseline, with intervals and verdicts; None where it alone has times."""
    from cudalab.report.html.charts import Bar, bars

    kind = kind or run.main_kind
    base = baseline(cases, kind, columns.references(run))
    if base is None or not any(case.times.get(kind) for case in cases if case is not base):
        return None  # one row alone is 1 times as fast as itself
    than = plain(base.label, 40)
    rows, said = [], []
    for case in columns.ordered(run, cases):
        ratio = run.speedup(case, kind, base.label)
        if ratio is None:
            rows.append(Bar(name(case), _without(case), role=role(case)))
            continue
        value, word = "1" if case is base else numbers.ratio(ratio), "" if case is base else ratio.verdict()
        known = "1" if case is base else numbers.with_ends(ratio)
        if ratio.says_nothing and case is not base:
            rows.append(Bar(name(case), known, role=role(case)))
            continue
        rows.append(Bar(name(case), f"{value} {word}", ratio.value, ratio.low, ratio.high, role(case), known))
        said.append((ratio.value, f"{name(case, 80)}: {known} times as fast as {than}{word and ': ' + word}"))
    most = max((row.value for row in rows if row.value is not None and row.role != "copy"), default=inf)
    for i, row in enumerate(rows):
        if row.role == "copy" and row.value is not None and row.value > BEYOND * most:
            rows[i] = replace(row, text=f"{row.text.split()[0]}: no bar", value=None, low=None, high=None)
    title = f"Speed-up over {than}, {number(kind)}"
    order = "" if run.of_study else "Fastest first, with "
    says = f"{order}95 % intervals. {max(said)[1] if run.of_study else said[0][1]}." if said else ""
    return Figure("speedup", title, says, bars(rows, f"times as fast as {than}", rule=1))


def times(run: Results, cases: list[Case], kind: str) -> Figure | None:
    """Draw one kind of time of each variant of a group; None where no variant has any."""
    from cudalab.report.html.charts import Bar, bars

    if not any(case.times.get(kind) for case in cases):
        return None
    rows = []
    unit, seconds = columns.unit(run, cases, kind)
    per = 1 / seconds
    for case in columns.ordered(run, cases):
        timing = case.timing(kind)
        if timing is None or (kind == "call" and columns.allocates(case)):
            rows.append(Bar(name(case), "allocates: see api" if timing else _without(case), role=role(case)))
            continue
        low, high = (per * end for end in timing.interval)
        text = f"{numbers.supported(per * timing.median, timing.width)} {marks.signs(run, case, cases, kind)}".strip()
        hint = f"{text} {unit} ({numbers.ends(low, high)})"
        rows.append(Bar(name(case), text, per * timing.median, low, high, role(case), hint))
    best = min(
        (r for r in rows if r.value is not None and r.role != "copy"), key=lambda r: r.value or inf, default=None
    )
    what = RUNS if run.of_study and kind == "wall" else KINDS.get(kind, "")
    says = f"{f'{_upper(what)}. ' if what else ''}{f'Shortest: {best.name}: {best.hint}.' if best else ''}".strip()
    return Figure(kind, f"{_upper(number(kind))} time", says, bars(rows, f"median {unit}, {number(kind)}"))


def samples(run: Results, cases: list[Case], kind: str = "") -> Figure | None:
    """All samples of each variant of a group, as deviations from the variant's own median."""
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
    word = (
        f"Two groups of samples, or an interval above {100 * marks.NOISY:.0f} %: {', '.join(noisy)}."
        if noisy
        else "No row has two groups."
    )
    says = f"All {sum(map(len, deviations)):,} samples; each row is scaled to its own median. {word}"
    axis = f"% from the variant's own median, {number(kind)}"
    return Figure("samples", f"Samples, {number(kind)}", says, chart(rows, axis, edge))


def _strip(case: Case, kind: str, deviations: np.ndarray, edge: float) -> Strip:
    from cudalab.report.html.charts import Strip

    beyond = int(np.count_nonzero(np.abs(deviations) > edge))
    values = stats.flat(case.times[kind]) * 1e6
    two = stats.bimodal(case.times[kind])
    timing = case.timing(kind)
    wide = timing is not None and timing.width > marks.NOISY
    state = "two groups" if two else "wide interval" if wide else f"{beyond} beyond" if beyond else ""
    text = f"{len(values)}{state and ', ' + state}"
    low, high = (numbers.significant(float(v), 4) for v in (values.min(), values.max()))
    hint = f"{len(values)} samples from {low} to {high} \u00b5s"
    hint += f", {beyond} of them beyond {100 * edge:.0f} %" if beyond else ""
    return Strip(
        name(case), deviations.tolist(), text, role(case), hint + (f"; {state}" if two or wide else ""), two or wide
    )


def styles(cases: Iterable[Case]) -> dict[str, int]:
    """Return the index of each variant's line style, ours first: the same in all charts of these cases."""
    shown = [case for case in cases if case.status not in (record.CEILING, record.SKIPPED)]
    labels = dict.fromkeys(case.label for case in sorted(shown, key=lambda case: not ours(case)))
    return {label: i for i, label in enumerate(labels)}


def part(run: Results, cases: list[Case]) -> Results:
    """The run with only these cases."""
    import msgspec

    return msgspec.structs.replace(run, cases=cases)


def _without(case: Case) -> str:
    """Return the text in place of a bar."""
    if case.status in record.BROKEN:
        return f"{case.status}: no time"
    return "right, not timed" if case.parity and case.parity.ok else "not timed"


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
