"""The table for a terminal: one per group, readable at 80 columns, plain where colours are not wanted."""

from __future__ import annotations

import io
from typing import Literal

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cudalab import results
from cudalab.errors import unknown
from cudalab.report import columns
from cudalab.report import plots as plots_
from cudalab.results import Results
from cudalab.text import visible

INKS = {"blocks": plots_.BLOCKS, "ascii": plots_.ASCII}
PIPED_WIDTH = 140  # where there is no terminal to ask
STYLES = {results.WRONG: "bold red", results.ERROR: "red", results.CEILING: "dim", "note": "yellow"}


def render(run: Results, width: int | None, color: bool, costs: bool = False, plots: str = "") -> str:
    """All of `run`, at most `width` columns wide; with `costs`, also what each variant costs once.

    `plots`: with which characters to draw bars and distributions, one of INKS; "": none.
    """
    if plots and plots not in INKS:
        raise unknown("kind of plots", plots, INKS)
    out = io.StringIO()
    console = screen(out, width, color)
    console.print(_plain(columns.heading(run), "bold"))
    if text := columns.missing(run):
        console.print(_plain(text, "bold yellow"))
    if run.timed:
        _times(console, run, costs, INKS.get(plots))
    else:
        _checks(console, run)
    for labels, reason in columns.skipped(run):
        console.print(_remark("skipped", labels, reason))
    for line in columns.footer(run) + ([plots_.legend(run)] if plots and run.timed else []):
        console.print(_plain(line, "dim"))
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


def screen(out: io.StringIO, width: int | None, color: bool) -> Console:
    """Where Rich prints, as wide as the terminal, plain if no colours are wanted."""
    return Console(
        file=out, width=width or PIPED_WIDTH, force_terminal=color, no_color=not color, highlight=False,
        color_system="standard" if color else None, legacy_windows=False,
    )  # fmt: skip


def _times(console: Console, run: Results, costs: bool, ink: plots_.Ink | None) -> None:
    for cases in run.groups().values():
        console.print()
        console.print(_plain(columns.title(cases)))
        headers, rows = columns.table(run, cases, wide=console.width >= columns.WIDE)
        table = _columns(headers, left=1)
        for cells, case in zip(rows, columns.rows(cases), strict=True):
            table.add_row(*map(_plain, cells), style=STYLES.get(case.status))
        console.print(table)
        if ink and (drawn := plots_.lines(run, cases, console.width, ink)):
            console.print(Padding(_plain("\n".join(drawn), keep="\n"), (1, 0, 0, 0)), soft_wrap=True)
        for remark in columns.remarks(cases):
            console.print(_remark(*remark))
        if costs and (once := columns.costs(cases)):
            table = _columns(columns.COST_HEADERS, left=1)
            for cells in once:
                table.add_row(*map(_plain, cells))
            console.print(Padding(table, (1, 0, 0, 2)))
    console.print()


def _checks(console: Console, run: Results) -> None:
    table = _columns(columns.CHECK_HEADERS, left=4)
    for cells, _ in columns.check_rows(run):
        table.add_row(*map(_plain, cells), style=STYLES.get(cells[3]))
    for name, column in zip(columns.CHECK_HEADERS, table.columns, strict=True):
        if name not in ("kernel", "variant"):  # only names are ever cut
            column.min_width = max((len(str(cell)) for cell in column.cells), default=0)
    console.print()
    console.print(table)
    console.print()
    errors = [("largest error", labels, element) for labels, element in columns.largest_errors(run)]
    remarks = errors + columns.remarks(run.cases, placed=True)
    for remark in remarks:
        console.print(_remark(*remark))
    if remarks:
        console.print()


def _columns(names: list[str], left: int) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim", pad_edge=False)
    for i, name in enumerate(names):
        justify: Literal["left", "right"] = "left" if i < left else "right"
        table.add_column(Text(visible(name).replace(" ", "\n", 1)), justify=justify, no_wrap=True)
    return table


def _remark(status: str, labels: str, text: str) -> Padding:
    said = visible(text, keep="\n")  # a compiler's lines
    line = Text.assemble((status, STYLES.get(status, "dim")), f" {visible(labels)}: {said}")
    return Padding(line, (0, 0, 0, 2))


def _plain(text: str, style: str = "", keep: str = "") -> Text:
    """One line shown as it is: Rich would read [red] as a style, and a terminal obeys escape sequences."""
    return Text(visible(text, keep), style=style)
