"""The layout of the page: one HTML file that loads nothing else and is the same for the same results.

The template escapes everything from a results file, and so does `paper` in drawings. The page's content security policy
allows only its own style and script, by their digests.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

from cudalab.base import stats
from cudalab.base.memo import unchanging
from cudalab.base.text import visible
from cudalab.report import below_tables, check_table, columns
from cudalab.report.html import draw, environment, figures, findings, gpus, overview, palette, roofline
from cudalab.report.html import study as studies
from cudalab.report.html.figures import Figure, plain
from cudalab.report.html.subjects import Run, Subject, anchor, fill, gathered, without_roofline
from cudalab.results import record as results
from cudalab.results.json_file import encoded
from cudalab.results.record import Results

HERE = Path(__file__).parent
TEXTS = ("kernel", "dtype", "size", "file", "variant", "verdict")  # columns that hold no numbers
LIGHT = {"true": "light", "false": "dark"}  # what JupyterLab says of a theme: what Visual Studio Code says
LONGEST = 3000  # characters of a reason


def runs_by_name(loaded: Sequence[tuple[str, Results]]) -> list[Run]:
    """The files by name, with the folder's name if two names are equal. The page shows nothing else of the paths."""
    names = [PurePath(path).name for path, _ in loaded]
    found = []
    for (path, run), name in zip(loaded, names):
        folder = PurePath(path).parent.name
        found.append(Run(plain(f"{folder}/{name}" if names.count(name) > 1 and folder else name, 80), run))
    return found


@unchanging
def render(loaded: Sequence[tuple[str, Results]]) -> str:
    """Return the page for (path, results) pairs."""
    runs = runs_by_name(loaded)
    subjects = gathered(runs)
    fill(subjects)
    anchor(subjects)
    pictures, without = overview.figures(runs, subjects)
    of_study = [run.results.of_study for run in runs]
    style, script = style_sheet(any(of_study)), (HERE / "script.js").read_text()
    return template("page.html.j2").render(
        **_shown_of(runs, subjects),
        question=findings.question(run.results for run in runs),
        pictures=[*pictures, *_rooflines(subjects), *gpus.figures([run.results for run in runs])],
        without=without,
        choose="Study" if all(of_study) else f"Kernel and dtype{', or study' if any(of_study) else ''}",
        runs=runs,
        mark=draw.MARK,
        policy=f"default-src 'none'; img-src data:; style-src '{hashed(style)}'; script-src '{hashed(script)}'; "
        "base-uri 'none'; form-action 'none'",
        style=markup(style),
        script=markup(script),
    )


def _shown_of(runs: list[Run], subjects: list[Subject]) -> dict[str, Any]:
    """What a page and a notebook show of runs, by its name in the templates; `subjects` have answers and charts."""
    return {
        "subjects": subjects,
        "svg": labelled,
        "table": _table(subjects),
        "checks": _checks(subjects),
        "remarks": _remarks(runs),
        "skipped": _unique((names, _cut(why)) for run in runs for names, why in _skipped(run)),
        "largest": _unique(
            line for run in runs if not run.results.timed for line in check_table.largest_errors(run.results)
        ),
        "headings": _unique(columns.heading(run.results) for run in runs),
        "missing": [(run.label, text) for run in runs for text in columns.warnings(run.results)],
        "environments": [environment.environment_of(run.label, run.results) for run in runs],
        "method": [*_method(runs), *without_roofline(subjects)],
        "texts": TEXTS,
    }


@unchanging
def embedded(run: Results) -> str:
    """Return a run as a part of a page, such as the output of a notebook's cell.

    It has the answers, the main charts of each kernel and the table; nothing in it loads a file or runs a script. Its
    style applies to it alone, and its anchors are those of no other run.
    """
    runs = [Run("", run)]
    subjects = gathered(runs)
    fill(subjects, whole=False)
    anchor(subjects)
    return template("embedded.html.j2").render(
        **_shown_of(runs, subjects),
        figures=_placed(subjects),
        own=f"cudalab-{hashlib.sha256(encoded(run)).hexdigest()[:12]}",
        style=markup(embedded_style()),
    )


def _placed(subjects: list[Subject]) -> list[Figure]:
    """The charts of all subjects, each with its size, and its kernel where there are several, in its title."""
    found = []
    for subject in subjects:
        name = subject.title if len(subjects) > 1 else ""
        placed = [(chart, name) for chart in subject.charts]
        placed += [(chart, f"{name}, {group.size}".strip(", ")) for group in subject.drawn for chart in group.charts]
        found += [
            replace(chart, title=f"{chart.title} \u00b7 {place}" if place else chart.title) for chart, place in placed
        ]
    return found


def _rooflines(subjects: Sequence[Subject]) -> list[Figure]:
    """The rooflines of all kernels, of each card."""
    cards: dict[str, list[roofline.Part]] = {}
    for subject in subjects:
        for group in () if subject.study else subject.groups:
            name = plain(group.run.results.machine.name, 60)
            cards.setdefault(name, []).append((group.run.results, group.cases))
    found = [(name, figure) for name, parts in cards.items() for figure in roofline.every(parts)]
    return [replace(f, title=f"{f.title} \u00b7 {name}") if len(cards) > 1 else f for name, f in found]


def _skipped(run: Run) -> list[tuple[str, str]]:
    return studies.skipped(run.results) if run.results.of_study else below_tables.skipped(run.results)


def _table(subjects: list[Subject]) -> dict[str, Any]:
    """Return every row of every group under all headers, with the texts of the terminal's tables."""
    groups = [group for subject in subjects if not subject.study for group in subject.groups]
    several = _in_several((group.cases[0].kernel, group.cases[0].dtype, group.run) for group in groups)
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


def _in_several(places: Iterable[tuple[str, str, Run]]) -> bool:
    """Whether the rows of some kernel and dtype come from more than one file, so that each row names its file."""
    found: dict[tuple[str, str], set[int]] = {}
    for kernel, dtype, run in places:
        found.setdefault((kernel, dtype), set()).add(id(run))
    return any(len(runs) > 1 for runs in found.values())


def _checks(subjects: list[Subject]) -> dict[str, Any]:
    """The table of the runs that only checked."""
    held = [(subject, run, cases) for subject in subjects for run, cases in subject.checks]
    several = _in_several((subject.kernel, subject.dtype, run) for subject, run, _ in held)
    found = [(run, *row) for _, run, cases in held for row in check_table.check_rows(figures.part(run.results, cases))]
    (kernel, dtype, *names), shown = check_table.headers_and_rows([cells for _, cells, _ in found])
    rows = []
    for (run, _, checked), (kernel_, dtype_, *rest) in zip(found, shown, strict=True):
        bad = next((figures.role(c) for c in checked if c.status in results.BROKEN), "")
        cells = [kernel_, dtype_, *([run.label] if several else []), *rest]
        state = bad or figures.role(checked[0])
        rows.append({"cells": [plain(cell, 80) for cell in cells], "order": {}, "state": state})
    return {"headers": [kernel, dtype, *(["file"] if several else []), *names], "rows": rows}


def _remarks(runs: list[Run]) -> list[tuple[str, str, str]]:
    """(status, labels, text) lines, failures first. A line names its file if other files have the kernel too."""
    several = _in_several((*key, run) for run in runs for key in _kernels(run))
    found: dict[tuple[str, str, str], list[str]] = {}
    for run in runs:
        for status, labels, text in below_tables.remarks(run.results.cases, placed=True):
            found.setdefault((status, _cut(labels), _cut(text)), []).append(run.label)
    lines = [(status, labels + (f" ({', '.join(files)})" if several else ""), text)
             for (status, labels, text), files in found.items()]  # fmt: skip
    return sorted(lines, key=lambda line: (*results.BROKEN, "note").index(line[0]))


def _kernels(run: Run) -> set[tuple[str, str]]:
    return {(case.kernel, case.dtype) for case in run.results.cases}


def _cut(text: str) -> str:
    """A text cut at LONGEST: browsers take seconds to lay out a very long one, such as a compiler's."""
    more = len(text) - LONGEST
    return text if more <= 0 else f"{text[:LONGEST]} \u2026 and {more:,} more characters in the results file"


def _method(runs: list[Run]) -> list[str]:
    """How to read the page, in the words of the terminal's tables."""
    kernels = [run for run in runs if not run.results.of_study]
    lines = _unique(
        line for run in kernels for line in below_tables.footer(run.results) if not line.startswith("floor")
    )
    if len(kernels) < len(runs):
        lines.append(
            "Studies: the result of every variant was compared with the baseline's before it was timed; the "
            "text above a study's charts explains its columns."
        )
    if any(run.results.timed for run in runs):
        lines += [
            "Intervals are 95 % intervals. They include the noise over rounds (in each, all variants take turns), what "
            "differs between processes, and the clock's step. A number has the digits that its interval supports.",
            f"FASTER or SLOWER: the whole interval is more than {100 * stats.MIN_EFFECT:.0f} % from 1; SAME: its 90 % "
            "interval is within that; UNCLEAR: neither.",
        ]
    if any(run.results.timed for run in kernels):
        lines += [
            "copy (ceiling): a copy of as many bytes, timed in the same rounds. Inputs are random, normal "
            "unless the spec says otherwise. Outputs are compared with NumPy in float64 before and after the timing; a "
            "wrong result has no time.",
        ]
    return lines


def _unique(items: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(items))


def style_sheet(with_studies: bool) -> str:
    dark = "@media (prefers-color-scheme:dark){" + palette.css(':root:not([data-theme="light"])') + "}"
    more = (HERE / "study.css").read_text() if with_studies else ""
    return (HERE / "style.css").read_text() + more + dark + palette.css(':root[data-theme="dark"]')


def embedded_style() -> str:
    """The page's style for the elements of class `cudalab` alone.

    The theme is that of JupyterLab or Visual Studio Code around them, which say it by an attribute or a class; without
    them it is the system's.
    """
    light, dark = (f':is([data-jp-theme-light="{told}"], .vscode-{name})' for told, name in LIGHT.items())
    style = style_sheet(with_studies=True)
    for selector, within in (
        (':root:not([data-theme="light"])', f"&:not({light} *)"),
        (':root[data-theme="dark"]', f"{dark} &"),
        (':root[data-theme="light"]', f"{light} &"),
        (":root", "&"),
        ("body {", "& {"),
    ):
        style = style.replace(selector, within)
    return f".cudalab {{\n{style}{(HERE / 'embedded.css').read_text()}}}\n"


def labelled(svg: str, label: str) -> Any:
    """A drawing as one picture: screen readers read the element `label` instead, of one with links its texts too."""
    role = "group" if "<a " in svg else "img"
    return markup(svg.replace("<svg ", f'<svg role="{role}" aria-labelledby="{label}" ', 1))


def hashed(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def markup(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)


def _shown(value: Any) -> Any:
    """Return a text with invisible characters shown, such as those that change the writing direction."""
    return visible(value, keep="\n") if type(value) is str else value


def template(name: str) -> Any:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, finalize=_shown,
    ).get_template(name)  # fmt: skip
