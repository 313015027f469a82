"""What the page is about: runs, their kernels and dtypes with answers and charts, and an anchor for each."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from cudalab.report import columns
from cudalab.report import study as report_study
from cudalab.report.html import checked, figures, findings, over_sizes, roofline
from cudalab.report.html import study as studies
from cudalab.report.html.figures import Figure, plain
from cudalab.results.record import Case, Results

MOST = 5  # sizes of one kernel and dtype with charts; of more sizes the ends and the middle get charts
FULL = (
    24  # kernels, dtypes and sizes of a page that shows all charts; of more, each kernel and dtype gets the main ones
)
CHARTED = ("cold", "hot", "graph", "call", "api", "wall")  # kinds of time with a chart; the cold graph is in the table


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
    without: str = ""  # why it has no roofline
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
    answers: list[findings.Answer] = field(default_factory=list)  # one; of several timed runs one each
    charts: list[Figure] = field(default_factory=list)
    anchor: str = ""
    drawn: list[Group] = field(default_factory=list)
    full: bool = True  # whether it has charts of every kind of time, at every size up to MOST
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


def gathered(runs: list[Run]) -> list[Subject]:
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


def _title(cases: list[Case]) -> str:
    return " \u00b7 ".join(plain(part, 80) for part in columns.title(cases).split("  "))


def fill(subjects: list[Subject], whole: bool = True) -> None:
    """Add the answers and the charts; unless `whole`, the main charts alone."""
    full = whole and sum(len(subject.groups) for subject in subjects if not subject.study) <= FULL
    for subject in subjects:
        subject.full = full
        _fill(subject)


def _fill(subject: Subject) -> None:
    if subject.study:
        _filled_study(subject, subject.study.results)
        return
    subject.groups.sort(key=lambda group: group.nbytes)
    timed = list({id(group.run): group.run for group in subject.groups}.values())
    for run in timed:
        groups = [group for group in subject.groups if group.run is run]
        subject.answers.append(_answer(subject, groups, run.label if len(timed) > 1 else ""))
        subject.drawn += _few(groups, subject.full)
        subject.charts += _over_sizes(groups, len(timed) > 1, subject.full)
    for run, cases in subject.checks:
        several = len(subject.checks) > 1
        if not timed:
            subject.answers.append(findings.checked(run.results, cases, run.label if several else ""))
        found = checked.accuracy(run.results, cases), checked.error(run.results, cases)
        subject.charts += [_of_file(figure, run, several) for figure in found if figure]
    for group in subject.drawn:
        last = group is [other for other in subject.drawn if other.run is group.run][-1]
        if len(timed) > 1:
            group.size, group.title = (f"{text} \u00b7 {group.run.label}" for text in (group.size, group.title))
        _fill_group(group, last, subject.full)


def _answer(subject: Subject, groups: list[Group], file: str) -> findings.Answer:
    """The answer of one timed run; what failed in a check of the kernel is said with the name of the check's file."""
    last = groups[-1]
    shares = {row[0]: dict(zip(last.headers, row)).get("% copy", columns.NOT_MEASURED) for row in last.cells}
    elsewhere = {"": [case for group in groups[:-1] for case in group.cases]}
    elsewhere |= {run.label: cases for run, cases in subject.checks}
    return findings.timed(last.run.results, last.cases, shares, elsewhere, file)


def _of_file(figure: Figure, run: Run, several: bool) -> Figure:
    return replace(figure, title=f"{figure.title} \u00b7 {run.label}") if several else figure


def _filled_study(subject: Subject, run: Results) -> None:
    subject.answers, subject.lines, subject.drawn = [studies.answer(run)], studies.lines(run), subject.groups
    for group in subject.groups:
        group.charts = studies.charts(run, group.cases)
        group.states = [studies.state(case) for case in report_study.shown(group.cases)]


def _over_sizes(groups: list[Group], several: bool, full: bool) -> list[Figure]:
    run, cases = groups[0].run, [case for group in groups for case in group.cases]
    main = run.results.main_kind
    kinds = [main, *(k for k in ("graph",) if full and k != main and any(k in c.times for c in cases))] if main else []
    found = [over_sizes.bandwidth(run.results, cases, kind) for kind in kinds]
    return [_of_file(figure, run, several) for figure in found if figure]


def _fill_group(group: Group, largest: bool, full: bool) -> None:
    """Add the charts; of a page that is not `full` the speed-ups, and at the largest size samples and roofline."""
    run, cases = group.run.results, group.cases
    found = [figures.speedup(run, cases), *([figures.samples(run, cases)] if largest or full else [])]
    found += [figures.times(run, cases, kind) for kind in columns.kinds(run) if full and kind in CHARTED]
    group.charts = [figure for figure in found if figure]
    if (largest or full) and any(roofline.KIND in case.times for case in cases):
        drawn = roofline.figure(run, cases)
        group.charts += [drawn] if isinstance(drawn, Figure) else []
        group.without = "" if isinstance(drawn, Figure) else drawn


def _few(groups: list[Group], full: bool) -> list[Group]:
    """The groups that get charts: all; or the ends, of a full page and many sizes also the middle."""
    if len(groups) <= (MOST if full else 2):
        return groups
    return [groups[0], *([groups[len(groups) // 2]] if full else []), groups[-1]]


def without_roofline(subjects: list[Subject]) -> list[str]:
    """Which kernels have charts, but no roofline, and why."""
    found: dict[str, list[str]] = {}
    for group in (group for subject in subjects for group in subject.drawn if group.without):
        kernel = plain(group.cases[0].kernel, 40)
        held = found.setdefault(group.without, [])
        held += [kernel] if kernel not in held else []
    return [f"No roofline of {', '.join(kernels)}: {why}." for why, kernels in found.items()]


def anchor(subjects: list[Subject]) -> None:
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
