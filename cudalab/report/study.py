"""What tables of a study show, in every format: columns, cells, and the lines above and below them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cudalab.base import numbers, stats
from cudalab.base.errors import message_of, short
from cudalab.report import columns, gpus
from cudalab.report.columns import Column
from cudalab.results import marks, record
from cudalab.results.record import Case, Results
from cudalab.study import found, says, sources
from cudalab.study.record import Published, Study

SIZES = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0))
SUFFIXES = {  # endings of quantities' names, and the units that they are printed in
    "_bytes": SIZES, "_s": numbers.TIME_UNITS, "_hz": (("MHz", 1e6),), "_w": (("W", 1.0),), "_c": (("\u00b0C", 1.0),),
}  # fmt: skip
BLANK = columns.NOT_MEASURED
FINDING = "Finding: "  # the heading of `conclusion`
VERDICTS = re.compile(rf"\b(?:{stats.FASTER}|{stats.SAME}|{stats.SLOWER}|{stats.UNCLEAR})\b")
ITEMS = "items"  # the quantity that is shown as a throughput
NAMED = {  # quantities that the engine counts, and their explanation
    "peak_bytes": "the largest allocation of torch during a run, minus what it held before the run.",
}


def heading(run: Results) -> str:
    """Return the first line: the study, its question, and the settings that were changed."""
    study, settings = found.study_of(run), run.options.get("settings")
    changed = {k: v for k, v in settings.items() if v != study.settings.get(k)} if isinstance(settings, dict) else {}
    given = ", ".join(f"{k} {plain(v)}" for k, v in changed.items())
    return f"{study.name}: {study.summary}" + (f" ({given})" if given else "")


def title(run: Results, cases: list[Case]) -> str:
    """Return the line above one workload's table: the size and its parameters."""
    size = cases[0].size
    given = found.study_of(run).sizes.get(size) or {"shape": cases[0].shape}
    return f"{size}: {in_words(given)}".removesuffix(": ")


def in_words(parameters: object) -> str:
    """The parameters of a size as text."""
    held = parameters.items() if hasattr(parameters, "items") else ()
    return ", ".join(f"{name.replace('_', ' ')} {plain(value)}" for name, value in held if value != ())


def plain(value: object) -> str:
    """A parameter's value as text."""
    return "x".join(map(plain, value)) if isinstance(value, (tuple, list)) else str(value)


def shown(cases: list[Case]) -> list[Case]:
    """The cases of a table: those that ran, in the study's order."""
    return [c for c in cases if c.status != record.SKIPPED]


def table(run: Results, cases: list[Case]) -> list[Column]:
    """The columns of one workload: variants, times, ratios, quantities, published numbers."""
    study, main, rows = found.study_of(run), run.main_kind, shown(cases)
    kinds = [k for k in dict.fromkeys((main, *study.kinds, *(k for c in rows for k in c.times))) if _any(rows, k)]
    drawn = [Column("variant", [case.label for case in rows])]
    for kind in kinds:
        unit = columns.unit(run, rows, kind)
        drawn.append(Column(f"{kind.replace('_', ' ')} {unit[0]}", [_time(run, case, kind, unit[1]) for case in rows]))
    if not kinds:
        drawn.append(Column("time", [_failed(case) for case in rows]))
    drawn += _ratios(run, study, rows)
    drawn += [_quantity(run, rows, name) for name in dict.fromkeys(name for c in rows for name in c.quantities)]
    articles = printed(study, rows)
    for i, article in enumerate(articles):
        drawn += _published(article, f"published{f' {i + 1}' if len(articles) > 1 else ''}", study, rows, main)
    return [column for column in drawn if column.cells]


def _ratios(run: Results, study: Study, rows: list[Case]) -> list[Column]:
    ratios = [says.speedup(run, case) for case in rows]
    return columns.compared(f"x {study.baseline}", ratios, [case.label == study.baseline for case in rows])


def _failed(case: Case) -> str:
    return case.status if case.status in record.BROKEN else BLANK


def _time(run: Results, case: Case, kind: str, unit: float) -> str:
    """Return a median in the unit, rounded by `numbers.supported`, with its marks."""
    timing = case.timing(kind)
    if not timing:
        return _failed(case)
    return numbers.supported(timing.median / unit, timing.width) + marks.signs(run, case, [], kind)


def _any(cases: list[Case], kind: str) -> bool:
    return any(case.times.get(kind) for case in cases)


def _quantity(run: Results, rows: list[Case], name: str) -> Column:
    """The column of a quantity; items become a throughput."""
    if name != ITEMS:
        values = [case.quantities.get(name) for case in rows]
        title, scale = quantity_name(name, values)
        return Column(title, [quantity(value, scale) for value in values])
    return Column("items/s", [says.items_per_second(case, run.main_kind) or BLANK for case in rows])


def quantity_name(name: str, values: Sequence[float | None] = ()) -> tuple[str, float]:
    """A column's head, the quantity's name and the unit that suits its largest value, and that unit's scale."""
    for suffix, units in SUFFIXES.items():
        if name.endswith(suffix) and not name.endswith("_per_s"):
            largest = max((abs(v) for v in values if v), default=0.0)
            unit, scale = next((u for u in units if largest >= u[1]), units[-1])
            return f"{in_name(name)} {unit}", scale
    return in_name(name), 1.0


def in_name(name: str) -> str:
    """A quantity's name without its unit."""
    if name.endswith("_per_s"):
        return f"{name.removesuffix('_per_s').replace('_', ' ')}/s"
    suffix = next((suffix for suffix in SUFFIXES if name.endswith(suffix)), "")
    return name.removesuffix(suffix).replace("_", " ")


def quantity(value: float | None, scale: float = 1.0) -> str:
    """Return a quantity in a unit of `scale`, as text."""
    if value is None:
        return BLANK
    return numbers.count(value / scale)


def printed(study: Study, rows: list[Case]) -> list[Published]:
    """The articles that have a number for one of the rows."""
    return [p for p in study.published if any((c.size, c.label) in p.seconds for c in rows)]


def _published(article: Published, name: str, study: Study, rows: list[Case], main: str) -> list[Column]:
    theirs = [article.seconds.get((case.size, case.label)) for case in rows]
    base = article.seconds.get((rows[0].size, study.baseline))
    ratios = [numbers.factor(base / s) if s else BLANK for s in theirs] if base else []
    unit = numbers.time_unit(min(s for s in theirs if s))
    return [
        Column(f"{name} {unit[0]}", [numbers.three(s / unit[1]) if s else BLANK for s in theirs]),
        *([Column(f"{name} x", ratios, joined=True)] if ratios else []),
    ]


def costs(cases: list[Case]) -> list[Column]:
    """What each variant costs once: preparation, and the first run, which may compile."""
    rows = [case for case in shown(cases) if case.costs]
    kinds = [name for name in ("bind", "first run") if any(name in case.costs for case in rows)]
    found_ = [
        Column(f"{name} ms", [numbers.three(1e3 * c.costs[name]) if name in c.costs else BLANK for c in rows])
        for name in kinds
    ]
    return [Column("variant", [case.label for case in rows]), *found_] if found_ else []


def footer(run: Results) -> list[str]:
    """What the columns mean, and where the published numbers were measured."""
    study, kind = found.study_of(run), run.main_kind
    lines = (
        ["wall: many runs back to back until the last has ended, divided by their number."]
        if _any(run.cases, "wall")
        else []
    )
    if kind:
        lines.append(f"x {study.baseline}: how many times as fast, from the {kind.replace('_', ' ')} time.")
    counted = dict.fromkeys(name for case in run.cases for name in case.quantities)
    lines += [f"{in_name(name)}: {NAMED[name]}" for name in counted if name in NAMED]
    borne = "".join(marks.signs(run, case, [], kind) for case in run.cases for kind in case.times)
    lines += marks.explained(borne)
    articles = printed(study, run.cases)
    for i, p in enumerate(articles):
        number = f" {i + 1}" if len(articles) > 1 else ""
        lines.append(f"published{number}: {p.source} ({p.machine}); {p.differs.removesuffix('.')}.")
    return [*lines, *gpus.lines(run), *sentences(study.about)]


def sentences(text: str) -> list[str]:
    """The lines of a text; a line that ends within a sentence is joined with the next."""
    found_: list[str] = []
    for line in filter(None, map(str.strip, text.split("\n"))):
        if found_ and not found_[-1].endswith((".", ":", "!", "?")):
            found_[-1] += f" {line}"
        else:
            found_.append(line)
    return found_


def finding(run: Results) -> str:
    """The study's finding in one line; empty if nothing was timed. An exception in it becomes text."""
    if not any(case.times for case in run.cases):
        return ""
    one = found.study_of(run)
    if reason := sources.outdated(one, run):
        return reason
    try:
        said = one.finding(run)
    except (Exception, SystemExit) as error:  # a user's code may raise anything, also where the run lacks a case
        return f"the finding fails on this run: {message_of(error)}"
    if not isinstance(said, str):
        return f"the finding returns {short(said)}, not a text"
    said = " ".join(said.split())
    return said + ("; ?: this run did not measure it" if "?" in said.replace(",", " ").split() else "")


def conclusion(run: Results) -> str:
    """The finding with its heading, which says so where all its verdicts are UNCLEAR, and if a busy machine is why."""
    said = finding(run)
    if not said or set(VERDICTS.findall(said)) != {stats.UNCLEAR}:
        return said and FINDING + said
    if run.busy and run.disturbed(run.main_kind):
        why = f"the machine was busy (load {marks.load_of(*run.busy)}), so the times are imprecise"
        return f"No finding: {why}; run it again when it is idle. This run says: {said}"
    return f"No finding: no difference is shown (UNCLEAR): {said}"
