"""The layout of the page: one HTML file that loads nothing else and is the same for the same results.

The template escapes everything from a results file; drawings consist of known elements only (`draw.clean`). The page's
content security policy allows only its own style and script, by their digests.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

from cudalab.base import stats
from cudalab.base.memo import unchanging
from cudalab.base.text import visible
from cudalab.report import columns
from cudalab.report import study as report_study
from cudalab.report.html import checked, draw, environment, figures, findings, over_sizes, palette
from cudalab.report.html import study as studies
from cudalab.report.html.figures import Figure, plain
from cudalab.results import record as results
from cudalab.results.record import Case, Results

HERE = Path(__file__).parent
MOST = 5  # sizes of one kernel and dtype with charts; of more sizes the ends and the middle get charts
TEXTS = ("kernel", "dtype", "size", "file", "variant", "verdict")  # columns that hold no numbers
LONGEST = 3000  # characters of a reason
CHARTED = ("cold", "hot", "graph", "call", "api", "wall")  # kinds of time with a chart; the cold graph is in the table

Draw = Callable[[dict[str, Any]], Future[str]]


@dataclass(frozen=True)
class Run:
    """A results file and its name on the page."""

    label: str
    results: Results


@dataclass
class Group:
    """One kernel, size and dtype: its charts and the cells of its table."""

    run: Run
    cases: list[Case]
    headers: list[str]
    cells: list[list[str]]
    title: str
    size: str
    anchor: str = ""
    charts: list[Figure] = field(default_factory=list)
    states: list[str] = field(default_factory=list)  # of a study's rows; its table is beside the charts

    @property
    def nbytes(self) -> int:
        return max(case.nbytes for case in self.cases)


@dataclass
class Subject:
    """One kernel and dtype: its answer, its charts over sizes, its charts at each size."""

    kernel: str
    dtype: str
    groups: list[Group] = field(default_factory=list)
    checks: list[tuple[Run, list[Case]]] = field(default_factory=list)
    answer: findings.Answer | None = None
    charts: list[Figure] = field(default_factory=list)
    anchor: str = ""
    drawn: list[Group] = field(default_factory=list)
    study: Run | None = None  # the run, if it is a study's
    lines: list[str] = field(default_factory=list)  # above its charts

    @property
    def title(self) -> str:
        if self.study:
            return " \u00b7 ".join(filter(None, (f"Study: {plain(self.kernel, 40)}", self.dtype)))
        return f"{plain(self.kernel, 40)}, {plain(self.dtype, 20)}"

    def every(self) -> list[Figure]:
        """All its charts."""
        return [*self.charts, *(chart for group in self.drawn for chart in group.charts)]


def named(loaded: Sequence[tuple[str, Results]]) -> list[Run]:
    """The files by name, with the folder's name if two names are equal. The page shows nothing else of the paths."""
    names = [PurePath(path).name for path, _ in loaded]
    found = []
    for (path, run), name in zip(loaded, names):
        folder = PurePath(path).parent.name
        found.append(Run(plain(f"{folder}/{name}" if names.count(name) > 1 and folder else name, 80), run))
    return found


def render(loaded: Sequence[tuple[str, Results]]) -> str:
    """The page for (path, results) pairs."""
    with draw.studio() as drawn:
        return laid_out(loaded, drawn)


@unchanging
def laid_out(loaded: Sequence[tuple[str, Results]], drawn: Draw) -> str:
    """The page; `drawn` draws a specification as an `<svg>`."""
    from cudalab.report.html.charts import unchecked

    runs = named(loaded)
    subjects = _subjects(runs)
    svgs: dict[int, Future[str]] = {}
    with unchecked():
        for subject in subjects:
            _filled(subject)
            svgs |= {id(chart): drawn(chart.spec) for chart in subject.every()}
    _anchored(subjects)
    of_study = [run.results.of_study for run in runs]
    style, script = _style(any(of_study)), (HERE / "script.js").read_text()
    return _template().render(
        question=findings.question(run.results for run in runs),
        subjects=subjects,
        choose="Study" if all(of_study) else f"Kernel and dtype{', or study' if any(of_study) else ''}",
        runs=runs,
        svg=lambda chart, label: _labelled(svgs[id(chart)].result(), label),
        digest=lambda chart: _digest(chart.spec),
        table=_table(subjects),
        checks=_checks(runs),
        remarks=_remarks(runs),
        skipped=_unique((names, _cut(why)) for run in runs for names, why in _skipped(run)),
        largest=_unique(line for run in runs if not run.results.timed for line in columns.largest_errors(run.results)),
        headings=_unique(columns.heading(run.results) for run in runs),
        missing=[(run.label, columns.missing(run.results)) for run in runs if columns.missing(run.results)],
        environments=[environment.of(run.label, run.results) for run in runs],
        method=_method(runs),
        texts=TEXTS,
        mark=draw.MARK,
        policy=f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'",
        style=_markup(style),
        script=_markup(script),
    )


def _digest(spec: dict[str, Any]) -> str:
    """The digest of a specification, without the last digits of numbers: those depend on the CPU that ran NumPy."""
    same = json.loads(json.dumps(spec), parse_float=lambda text: f"{float(text):.9g}")
    return hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()[:12]


def _subjects(runs: list[Run]) -> list[Subject]:
    """The subjects of the page, by kernel and dtype, in the order of the files."""
    found: dict[tuple[str, str], Subject] = {}
    for run in runs:
        if run.results.of_study:
            found[run.label, "study"] = _study(run, runs)
            continue
        parts: dict[tuple[str, str], list[Case]] = {}
        for (kernel, _, dtype), cases in run.results.groups().items():
            subject = found.setdefault((kernel, dtype), Subject(kernel, dtype))
            if run.results.timed:
                headers, cells = columns.table(run.results, cases)
                subject.groups.append(Group(run, cases, headers, cells, _title(cases), plain(cases[0].size, 40)))
            else:
                parts.setdefault((kernel, dtype), []).extend(cases)
        for key, cases in parts.items():
            found[key].checks.append((run, cases))
    return list(found.values())


def _study(run: Run, runs: list[Run]) -> Subject:
    """The subject of a study's run; it names its file if another run is of the same study."""
    name = str(run.results.options["study"])
    again = [other for other in runs if other.results.of_study and other.results.options["study"] == name]
    subject = Subject(run.results.cases[0].kernel if run.results.cases else name, "", study=run)
    subject.dtype = run.label if len(again) > 1 else ""
    for cases in run.results.groups().values():
        headers, cells = studies.cells(run.results, cases)
        title = plain(report_study.title(run.results, cases), 200)
        subject.groups.append(Group(run, cases, headers, cells, title, plain(cases[0].size, 40)))
    return subject


def _skipped(run: Run) -> list[tuple[str, str]]:
    return studies.skipped(run.results) if run.results.of_study else columns.skipped(run.results)


def _title(cases: list[Case]) -> str:
    return " \u00b7 ".join(plain(part, 80) for part in columns.title(cases).split("  "))


def _filled(subject: Subject) -> None:
    """Add the answer and the charts to a subject."""
    if subject.study:
        _filled_study(subject, subject.study.results)
        return
    files = _unique(group.run.label for group in subject.groups)
    checks = [case for _, cases in subject.checks for case in cases]
    subject.groups.sort(key=lambda group: group.nbytes)
    if subject.groups:
        last = subject.groups[-1]
        shares = {row[0]: dict(zip(last.headers, row)).get("% copy", columns.NOT_MEASURED) for row in last.cells}
        elsewhere = [case for group in subject.groups[:-1] for case in group.cases] + checks
        subject.answer = findings.timed(last.run.results, last.cases, shares, elsewhere)
    elif subject.checks:
        subject.answer = findings.checked(subject.checks[0][0].results, checks)
    for run in dict.fromkeys(map(id, (group.run for group in subject.groups))):
        groups = [group for group in subject.groups if id(group.run) == run]
        subject.drawn += _few(groups)
        subject.charts += _over_sizes(groups, len(files) > 1)
    for run_, cases in subject.checks:
        found = checked.accuracy(run_.results, cases), checked.error(run_.results, cases)
        subject.charts += [f for f in found if f]
    for group in subject.drawn:
        group.size += f" \u00b7 {group.run.label}" if len(files) > 1 else ""
        group.charts = _of(group)


def _filled_study(subject: Subject, run: Results) -> None:
    subject.answer, subject.lines, subject.drawn = studies.answer(run), studies.lines(run), subject.groups
    for group in subject.groups:
        group.charts = studies.charts(run, group.cases)
        group.states = [studies.state(case) for case in report_study.shown(group.cases)]


def _over_sizes(groups: list[Group], several: bool) -> list[Figure]:
    run, cases = groups[0].run, [case for group in groups for case in group.cases]
    main = run.results.main_kind
    kinds = [main, *(k for k in ("graph",) if k != main and any(k in c.times for c in cases))] if main else []
    found = [over_sizes.bandwidth(run.results, cases, kind) for kind in kinds]
    suffix = f" \u00b7 {run.label}" if several else ""
    return [replace(f, title=f.title + suffix) for f in found if f]


def _of(group: Group) -> list[Figure]:
    run, cases = group.run.results, group.cases
    kinds = [kind for kind in columns.kinds(run) if kind in CHARTED]
    found = [figures.speedup(run, cases), figures.samples(run, cases), *(figures.times(run, cases, k) for k in kinds)]
    return [f for f in found if f]


def _few(groups: list[Group]) -> list[Group]:
    """The groups that get charts: all, or the ends and the middle of a sweep."""
    if len(groups) <= MOST:
        return groups
    return [groups[0], groups[len(groups) // 2], groups[-1]]


def _anchored(subjects: list[Subject]) -> None:
    """Set the anchors for links: letters and digits of the titles, each unique."""
    taken: set[str] = set()
    for subject in subjects:
        subject.anchor = _anchor(f"{'study-' if subject.study else ''}{subject.kernel}-{subject.dtype}", taken)
        for group in subject.drawn:
            group.anchor = _anchor(f"{subject.anchor}-{group.size}", taken)


def _anchor(text: str, taken: set[str]) -> str:
    base = re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-")[:60] or "part"
    found = next(name for i in range(len(taken) + 1) if (name := f"{base}-{i + 1}" if i else base) not in taken)
    taken.add(found)
    return found


def _table(subjects: list[Subject]) -> dict[str, Any]:
    """Every row of every group under all headers, with the texts of the terminal's tables."""
    groups = [group for subject in subjects if not subject.study for group in subject.groups]
    several = len({group.run.label for group in groups}) > len({group.cases[0].kernel for group in groups})
    own = _unique(header for group in groups for header in group.headers)
    rows = []
    for group in groups:
        case = group.cases[0]
        place = [plain(case.kernel, 40), plain(case.dtype, 20), plain(case.size, 40)]
        for shown, cells in zip(columns.rows(group.cases), group.cells):
            held = dict(zip(group.headers, cells))
            values = [plain(held.get(header, columns.NOT_MEASURED), 80) for header in own]
            cells = [*place, *([group.run.label] if several else []), *values]
            rows.append({"cells": cells, "order": {2: group.nbytes}, "state": figures.role(shown)})
    return {"headers": ["kernel", "dtype", "size", *(["file"] if several else []), *own], "rows": rows}


def _checks(runs: list[Run]) -> dict[str, Any]:
    """The table of the runs that only checked."""
    rows = []
    for run in runs:
        if not run.results.timed:
            for cells, cases in columns.check_rows(run.results):
                bad = next((figures.role(c) for c in cases if c.status in results.BROKEN), "")
                cells = [plain(cell, 80) for cell in cells]
                rows.append({"cells": cells, "order": {}, "state": bad or figures.role(cases[0])})
    return {"headers": columns.CHECK_HEADERS, "rows": rows}


def _remarks(runs: list[Run]) -> list[tuple[str, str, str]]:
    """(status, labels, text) lines, failures first."""
    lines = (line for run in runs for line in columns.remarks(run.results.cases, placed=True))
    found = _unique((status, _cut(labels), _cut(text)) for status, labels, text in lines)
    return sorted(found, key=lambda line: (*results.BROKEN, "note").index(line[0]))


def _cut(text: str) -> str:
    """A text cut at LONGEST: browsers take seconds to lay out a very long one, such as a compiler's."""
    more = len(text) - LONGEST
    return text if more <= 0 else f"{text[:LONGEST]} \u2026 and {more:,} more characters in the results file"


def _method(runs: list[Run]) -> list[str]:
    """How to read the page, in the words of the terminal's tables."""
    kernels = [run for run in runs if not run.results.of_study]
    lines = _unique(line for run in kernels for line in columns.footer(run.results) if not line.startswith("floor"))
    if len(kernels) < len(runs):
        lines.append(
            "Studies: the result of every variant was compared with the baseline's before it was timed; what the "
            "columns of one are stands above its charts."
        )
    if any(run.results.timed for run in runs):
        lines += [
            "Intervals are of 95 %. They count the noise over rounds, in which all variants took turns, what differs "
            "between processes, and the clock's step. A number has the digits that its interval supports.",
            f"FASTER or SLOWER: the whole interval is more than {stats.MIN_EFFECT:.0%} from 1; SAME: its 90 % interval "
            "is within; UNCLEAR: neither.",
        ]
    if any(run.results.timed for run in kernels):
        lines += [
            "copy (ceiling): a copy of as many bytes, timed in the same rounds. Inputs are random normal "
            "numbers, outputs are compared with NumPy in float64 before and after the timing; what is wrong has no "
            "time.",
        ]
    return lines


def _unique(items: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(items))


def _style(with_studies: bool) -> str:
    dark = "@media (prefers-color-scheme:dark){" + palette.css(':root:not([data-theme="light"])') + "}"
    more = (HERE / "study.css").read_text() if with_studies else ""
    return (HERE / "style.css").read_text() + more + dark + palette.css(':root[data-theme="dark"]')


def _labelled(svg: str, label: str) -> Any:
    """A drawing as one picture; screen readers read the element `label` instead."""
    return _markup(svg.replace("<svg ", f'<svg role="img" aria-labelledby="{label}" ', 1))


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _markup(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)


def _shown(value: Any) -> Any:
    """A text with invisible characters shown, such as those that change the writing direction."""
    return visible(value, keep="\n") if type(value) is str else value


def _template() -> Any:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, finalize=_shown,
    ).get_template("page.html.j2")  # fmt: skip
