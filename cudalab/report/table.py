"""Tables for a terminal: one per group, readable at 80 columns, with or without colour."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Literal

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cudalab.base.errors import unknown
from cudalab.base.text import visible
from cudalab.report import answer, columns
from cudalab.report import plots as plots_
from cudalab.report.columns import Column
from cudalab.results import record
from cudalab.results.record import Results

INKS = {"blocks": plots_.BLOCKS, "ascii": plots_.ASCII}
SHORT = 12  # the most groups that are summed up in a line each
PIPED_WIDTH = 140  # columns, if the output is not a terminal
STYLES = {
    record.WRONG: "bold red",
    record.IMPOSSIBLE: "bold red",
    record.ERROR: "red",
    record.CEILING: "dim",
    "note": "yellow",
}


def render(run: Results, width: int | None, color: bool, costs: bool = False, plots: str = "") -> str:
    """All of `run`, at most `width` columns wide; `costs` adds what each variant costs once.

    `plots`: the characters that bars and histograms are drawn with, one of INKS; "": no plots.
    """
    if plots and plots not in INKS:
        raise unknown("kind of plots", plots, INKS)
    out = io.StringIO()
    console = screen(out, width, color)
    console.print(plain(columns.heading(run), "bold"))
    for text in columns.warnings(run):
        console.print(plain(text, "bold yellow"))
    if run.timed:
        _times(console, run, costs, INKS.get(plots))
    else:
        _checks(console, run)
    for labels, reason in columns.skipped(run):
        console.print(remark("skipped", labels, reason))
    for line in columns.footer(run) + ([plots_.legend(run)] if plots and run.timed else []):
        console.print(plain(line, "dim"))
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


def screen(out: io.StringIO, width: int | None, color: bool) -> Console:
    """A Rich console that prints to `out`, in plain text unless `color`."""
    return Console(
        file=out, width=width or PIPED_WIDTH, force_terminal=color, no_color=not color, highlight=False,
        color_system="standard" if color else None, legacy_windows=False,
    )  # fmt: skip


def _times(console: Console, run: Results, costs: bool, ink: plots_.Ink | None) -> None:
    for cases in run.groups().values():
        console.print()
        console.print(plain(columns.title(cases)))
        for i, part in enumerate(parts(columns.drawn(run, cases), console.width, lambda c: headed(c.name))):
            table = columns_of([column.name for column in part], left=1)
            for texts, case in zip(zip(*(c.cells for c in part), strict=True), columns.rows(cases), strict=True):
                table.add_row(*map(plain, texts), style=STYLES.get(case.status))
            console.print(Padding(fitted(table, console.width), (bool(i), 0, 0, 0)))
        if ink and (drawn := plots_.lines(run, cases, console.width, ink)):
            console.print(Padding(plain("\n".join(drawn), keep="\n"), (1, 0, 0, 0)), soft_wrap=True)
        for said in columns.remarks(cases):
            console.print(remark(*said))
        if costs and (once := columns.costs(cases)):
            table = columns_of(columns.COST_HEADERS, left=1)
            for cells in once:
                table.add_row(*map(plain, cells))
            console.print(Padding(table, (1, 0, 0, 2)))
    console.print()
    if 0 < len(groups := run.groups()) <= SHORT:
        console.print(plain("In short", "bold"))
        for cases in groups.values():
            console.print(Padding(plain(f"{' '.join(cases[0].group)}: {answer.sentence(run, cases)}"), (0, 0, 0, 2)))
        console.print()


def _checks(console: Console, run: Results) -> None:
    table = columns_of(columns.CHECK_HEADERS, left=4)
    for cells, _ in columns.check_rows(run):
        table.add_row(*map(plain, cells), style=STYLES.get(cells[3]))
    console.print()
    console.print(fitted(table, console.width, [columns.CHECK_HEADERS.index(name) for name in ("variant", "kernel")]))
    console.print()
    errors = [("largest error", labels, element) for labels, element in columns.largest_errors(run)]
    remarks = errors + columns.remarks(run.cases, placed=True)
    for said in remarks:
        console.print(remark(*said))
    if remarks:
        console.print()


def parts(drawn: list[Column], width: int, head: Callable[[Column], str]) -> list[list[Column]]:
    """The columns split into tables that fit `width`; each begins with the names. `head`: a column's printed head.

    What is joined to the names stands in the first table, also where it does not fit: then the names are cut.
    """
    blocks: list[list[Column]] = []
    for column in drawn:
        if column.joined and blocks:
            blocks[-1].append(column)
        else:
            blocks.append([column])

    def taken(block: list[Column]) -> int:
        texts = ((head(column), *column.cells) for column in block)
        return sum(1 + max(len(line) for text in t for line in visible(text, keep="\n").split("\n")) for t in texts)

    found: list[list[Column]] = []
    for block in blocks:
        if found and (len(found[-1]) == 1 or taken(found[-1]) + taken(block) - 1 <= width):
            found[-1] += block
        else:
            found.append([drawn[0], *block] if found else [*block])
    return found


def headed(name: str) -> str:
    """A column's name on two lines."""
    return visible(name).replace(" ", "\n", 1)


def columns_of(names: list[str], left: int) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim", pad_edge=False)
    for i, name in enumerate(names):
        justify: Literal["left", "right"] = "left" if i < left else "right"
        table.add_column(Text(headed(name)), justify=justify, no_wrap=True)
    return table


def fitted(table: Table, width: int, names: Sequence[int] = (0,)) -> Table:
    """The table with its columns of names cut, one after the other, until it fits `width`. Numbers are never cut."""
    widths = [max(len(line) for cell in (c.header, *c.cells) for line in str(cell).split("\n")) for c in table.columns]
    excess = sum(widths) + len(widths) - 1 - width
    for i in names if excess > 0 else ():
        table.columns[i].width = max(widths[i] - max(excess, 0), min(widths[i], 6))
        excess -= widths[i] - (table.columns[i].width or 0)
    return table


def remark(status: str, labels: str, text: str) -> Padding:
    said = visible(text, keep="\n")  # a compiler's message has several lines
    line = Text.assemble((status, STYLES.get(status, "dim")), f" {visible(labels)}: {said}")
    return Padding(line, (0, 0, 0, 2))


def plain(text: str, style: str = "", keep: str = "") -> Text:
    """Text without markup: Rich would take [red] for a style, and a terminal would obey escape sequences."""
    return Text(visible(text, keep), style=style)
