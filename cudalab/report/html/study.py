"""Studies on the page: the question, the finding, and the charts of each workload."""

from __future__ import annotations

from cudalab.base import numbers
from cudalab.report import below_tables, study
from cudalab.report.html import figures, findings
from cudalab.report.html.figures import Figure, plain
from cudalab.report.html.findings import Answer
from cudalab.results import record
from cudalab.results.record import Case, Results
from cudalab.study import found, says
from cudalab.study.record import Published


def answer(run: Results) -> Answer:
    """The finding and the question of a run; bad if a variant is wrong or failed."""
    one = found.study_of(run)
    bad = findings.failures(run.cases)
    subject = f"{plain(one.name, 40)}, {plain(run.machine.name, 60)}"
    without = "No finding" if run.main_kind else "No finding: nothing was timed"
    said = plain(study.conclusion(run).removeprefix(study.FINDING), 3000) or without
    return Answer(subject, said + bad, plain(study.heading(run), 400), "bad" if bad else "neutral")


def lines(run: Results) -> list[str]:
    """The lines above the charts: the question, how to read them, and the published sources."""
    return [plain(line, 1000) for line in (study.heading(run), *study.footer(run))]


def cells(run: Results, cases: list[Case]) -> tuple[list[str], list[list[str]]]:
    """Headers and rows of one workload's table."""
    drawn = study.table(run, cases)
    rows = [[plain(cell, 80) for cell in row] for row in zip(*(column.cells for column in drawn), strict=True)]
    return [plain(column.name, 60) for column in drawn], rows


def charts(run: Results, cases: list[Case]) -> list[Figure]:
    """The charts of one workload: ratios, published ratios, times, memory, samples."""
    kinds = [kind for kind in dict.fromkeys(kind for case in cases for kind in case.times) if kind != run.main_kind]
    drawn = [
        figures.speedup(run, cases),
        *(_published(run, cases, p) for p in study.printed(found.study_of(run), cases)),
    ]
    drawn += [figures.times(run, cases, kind) for kind in (run.main_kind, *kinds) if kind]
    drawn += [_bytes(cases, name) for name in dict.fromkeys(n for c in cases for n in c.quantities)]
    return [figure for figure in (*drawn, figures.samples(run, cases)) if figure]


def _bytes(cases: list[Case], name: str) -> Figure | None:
    """Bars of a quantity in bytes; None for other quantities."""
    from cudalab.report.html.charts import Bar, bars

    if not name.endswith("_bytes"):
        return None
    rows = []
    title, scale = study.quantity_name(name, [case.quantities.get(name) for case in cases])
    for case in study.shown(cases):
        value, text = case.quantities.get(name), study.quantity(case.quantities.get(name), scale)
        held = None if value is None else max(value / scale, 0.0)
        hint = f"{figures.name(case, 80)}: {title} {text}"
        rows.append(Bar(figures.name(case), text, held, role=figures.role(case), hint=hint))
    says_ = study.NAMED.get(name, "")
    head = plain(study.in_name(name), 40)
    return Figure(plain(name, 40), f"Memory: {head}", says_[:1].upper() + says_[1:], bars(rows, plain(title, 60)))


def _published(run: Results, cases: list[Case], article: Published) -> Figure | None:
    """Ratios to the baseline, ours and the article's alternating."""
    from cudalab.report.html.charts import Bar, bars

    one = found.study_of(run)
    base = article.seconds.get((cases[0].size, one.baseline))
    rows = []
    for case in study.shown(cases):
        theirs, ratio = article.seconds.get((case.size, case.label)), says.speedup(run, case)
        if not (theirs and base and ratio) or case.label == one.baseline:
            continue
        text = numbers.ratio(ratio)
        hint = f"{figures.name(case, 80)}: {text} here, {numbers.factor(base / theirs)} published"
        value, low, high = (None, None, None) if ratio.says_nothing else (ratio.value, ratio.low, ratio.high)
        rows.append(Bar(figures.name(case), f"{text} here", value, low, high, "ours", hint))
        rows.append(Bar("", f"{numbers.factor(base / theirs)} published", base / theirs, role="other", hint=hint))
    if not rows:
        return None
    where = f"{plain(article.source, 200)} ({plain(article.machine, 200)}); {plain(article.differs, 400)}."
    title = f"Times as fast as {plain(one.baseline, 40)}, here and published"
    return Figure("published", title, where, bars(rows, f"times as fast as {plain(one.baseline, 40)}", rule=1))


def skipped(run: Results) -> list[tuple[str, str]]:
    """(labels with the study's name, reason) of the variants that could not run here."""
    return [(f"{found.study_of(run).name}: {labels}", reason) for labels, reason in below_tables.skipped(run)]


def state(case: Case) -> str:
    """The state of a row, for its colour."""
    return "bad" if case.status in record.BROKEN else ""
