"""The tables of `table.py` in Markdown, for a README or a pull request."""

from __future__ import annotations

from cudalab.base.text import visible
from cudalab.report import columns
from cudalab.results.record import Case, Results


def render(run: Results) -> str:
    """All groups of `run`, each a heading and a table."""
    return "\n".join(map(visible, _lines(run))).replace("\n\n\n", "\n\n")


def _lines(run: Results) -> list[str]:
    if not run.timed:
        return [columns.heading(run), "", *_checks(run)]
    lines = [columns.heading(run), *columns.warnings(run)]
    for cases in run.groups().values():
        lines += ["", f"**{columns.title(cases)}**", "", *group(run, cases)]
        lines += ["", *(f"- {status}: {labels}: {one_line(text)}" for status, labels, text in columns.remarks(cases))]
    lines += ["", *(f"- skipped: {labels}: {one_line(reason)}" for labels, reason in columns.skipped(run))]
    return [*lines, "", *columns.footer(run)]


def group(run: Results, cases: list[Case]) -> list[str]:
    """The table of one group."""
    names, body = columns.table(run, cases)
    return tabled(names, body)


def tabled(names: list[str], body: list[list[str]]) -> list[str]:
    """A table whose first column holds names and the others numbers."""
    return [_row(names), _row(["---", *["--:"] * (len(names) - 1)]), *map(_row, body)]


def _checks(run: Results) -> list[str]:
    names = columns.CHECK_HEADERS
    return [_row(names), _row(["---"] * len(names)), *(_row(cells) for cells, _ in columns.check_rows(run))]


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"


def one_line(text: str) -> str:
    """A remark's text without line breaks."""
    return " ".join(text.split())
