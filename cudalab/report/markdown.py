"""The tables of `table.py` in Markdown, for a README or a pull request. Texts of a run are shown as they are: HTML and
Markdown in them has no effect.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from cudalab.base.text import visible
from cudalab.report import below_tables, check_table, columns, gpus
from cudalab.results.record import Case, Results

# What Markdown obeys in a line. A backslash is text except before a punctuation mark, an underscore within a word too.
MARKUP = re.compile(r"[`*\[\]]|\\(?=[!-/:-@\[-`{-~]|$)|(?<![^\W_])_+|_+(?![^\W_])")


def render(run: Results) -> str:
    """All groups of `run`, each a heading and a table."""
    return "\n".join(_lines(run)).replace("\n\n\n", "\n\n")


def _lines(run: Results) -> list[str]:
    if not run.timed:
        return [opening(columns.heading(run)), "", *_checks(run)]
    lines = [opening(columns.heading(run)), *map(inline, columns.warnings(run))]
    for cases in run.groups().values():
        lines += ["", f"**{inline(columns.title(cases))}**", "", *group(run, cases)]
        lines += ["", *remarks(below_tables.remarks(cases))]
    lines += ["", *skipped(below_tables.skipped(run))]
    names, rows = gpus.table(run)
    lines += ["", f"**{gpus.TITLE}**", "", *tabled(names, rows)] if rows else []
    return [*lines, "", *map(opening, below_tables.footer(run))]


def remarks(said: Iterable[tuple[str, str, str]]) -> list[str]:
    """(status, labels, text) as points of a list."""
    return [f"- {status}: {inline(labels)}: {inline(text)}" for status, labels, text in said]


def skipped(said: Iterable[tuple[str, str]]) -> list[str]:
    """(labels, reason) as points of a list."""
    return [f"- skipped: {inline(labels)}: {inline(reason)}" for labels, reason in said]


def group(run: Results, cases: list[Case]) -> list[str]:
    """Return the table of one group."""
    names, body = columns.table(run, cases)
    return tabled(names, body)


def tabled(names: list[str], body: list[list[str]]) -> list[str]:
    """A table whose first column holds names and the others numbers."""
    return [_row(names), _row(["---", *["--:"] * (len(names) - 1)]), *map(_row, body)]


def _checks(run: Results) -> list[str]:
    names, rows = check_table.headers_and_rows([cells for cells, _ in check_table.check_rows(run)])
    return [_row(names), _row(["---"] * len(names)), *map(_row, rows)]


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(map(cell, cells))} |"


def cell(text: str) -> str:
    """Return a text in a table."""
    return inline(text).replace("|", "\\|")


def opening(text: str) -> str:
    """A text that begins a line: a mark such as # would make it a heading or a list."""
    return re.sub(r"^(\d*)([#>=+.)-])", r"\1\\\2", inline(text))


def inline(text: str) -> str:
    """A text without line breaks, its HTML and Markdown escaped. An underscore within a word needs no escape."""
    plain = visible(" ".join(filter(None, map(str.strip, text.splitlines()))))
    plain = MARKUP.sub(lambda found: "".join(f"\\{c}" for c in found[0]), plain)
    plain = plain.replace("~", "\\~") if plain.count("~") > 1 else plain
    return plain.replace("&", "&amp;").replace("<", "&lt;")
