"""Tables for a terminal: one per group, readable at 80 columns, with or without colour."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cudalab.base import stats
from cudalab.base.errors import unknown
from cudalab.base.text import visible
from cudalab.report import answer, below_tables, check_table, columns, gpus, highlight
from cudalab.report import plots as plots_
from cudalab.report.columns import Column
from cudalab.results import record
from cudalab.results.record import Results

INKS = {"blocks": plots_.BLOCKS, "ascii": plots_.ASCII}
SHORT = 12  # the most groups that are summed up in a line each
PIPED_WIDTH = 140  # columns of tables, if the output is not a terminal; lines of text have no limit there
STYLES = {
    record.WRONG: "bold red",
    record.IMPOSSIBLE: "bold red",
    record.ERROR: "red",
    record.CEILING: "dim",
    "note": "yellow",
}

# The columns that leave the first table where it is too narrow, in this order; of errors only if all rows are right.
MOVABLE = ("% limit", "% copy", "max ULP")
DROPPED = (
    "rel. error",
    "rounded",
    "shapes",
    check_table.ALLOWED,
)  # the columns of a check that are left out, in this order
LEAST_NAME = 12  # characters to which a column of names is wrapped at most
_PIECES = re.compile(r"[^:_.+/\s-]*(?:[:_.+/\s-]|$)")


def render(
    run: Results, width: int | None, color: bool, costs: bool = False, plots: str = "", height: int | None = None
) -> str:
    """All of `run`, at most `width` columns wide; `costs` adds what each variant costs once.

    `plots`: the characters that bars and histograms are drawn with, one of INKS; "": no plots. `height`: the lines of
    the terminal, None for other outputs; see `Page`.
    """
    if plots and plots not in INKS:
        raise unknown("kind of plots", plots, INKS)
    page = Page(width, height, color)
    page.top.print(plain(columns.heading(run), "bold"))
    for text in columns.warnings(run):
        page.top.print(plain(text, "bold yellow"))
    names = _times(page.body, run, costs, INKS.get(plots)) if run.timed else _checks(page.body, run)
    for labels, reason in below_tables.skipped(run):
        page.body.print(remark("skipped", labels, reason))
    put_gpus(page.body, run)
    lines, answers = below_tables.footer(run, names), _in_short(run)
    if below_tables.UNCLEAR not in lines and any(stats.UNCLEAR in text for text in answers):
        lines.append(below_tables.UNCLEAR)
    lines += plots_.legend(run, page.body.width) if plots and run.timed else []
    for line in highlight.explained(run.cases) + lines:
        page.legend.print(plain(line, "dim"))
    if answers:
        _short(page.end, answers)
    return page.text()


def in_short(answers: Sequence[str], width: int | None, color: bool) -> str:
    """The answers below a heading, after an empty line."""
    out = io.StringIO()
    _short(screen(out, width, color), answers)
    return finished(out, width)


def _short(console: Console, answers: Sequence[str]) -> None:
    console.print()
    console.print(plain("In short", "bold"))
    for text in answers:
        console.print(Indented(highlight.with_colours(plain(text))))


class Page:
    """What a terminal shows, in parts: `top`, `body` (the tables), `legend` (how to read them), `end` (the answer).

    The legend follows the tables. Where the whole has more lines than the terminal, it comes before them: else the
    screen would show the legend and no table.
    """

    def __init__(self, width: int | None, height: int | None, color: bool) -> None:
        self.width, self.height = width, height
        self._written = [io.StringIO() for _ in range(4)]
        self.top, self.body, self.legend, self.end = (screen(out, width, color) for out in self._written)

    def text(self, whole: str = "csv") -> str:
        """All parts; `whole` as in `finished`."""
        top, body, legend, end = (out.getvalue() for out in self._written)
        text = finished(io.StringIO(top + body + legend + end), self.width, whole)
        if self.height is None or text.count("\n") + 1 < self.height:  # the next prompt takes a line
            return text
        return finished(io.StringIO(top + legend + body + end), self.width, whole)


def finished(out: io.StringIO, width: int | None, whole: str = "csv") -> str:
    """What was printed, without blanks at line ends; a last line says so where a table is wider than `width`.

    `whole`: a format of the command that has everything; "": there is none.
    """
    text = "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())
    widest = max((cell_len(line) for line in Text.from_ansi(text).plain.splitlines()), default=0)
    if width is None or widest <= width:
        return text
    advice = f"widen it, or give --format {whole}" if whole else "widen it"
    return f"{text}\nThe table has {widest} columns, the terminal {width}: {advice}."


def screen(out: io.StringIO, width: int | None, color: bool) -> Console:
    """A Rich console that prints to `out`, in plain text unless `color`. Without a width no line of text is broken."""
    return Console(
        file=out, width=width or PIPED_WIDTH, soft_wrap=width is None, force_terminal=color, no_color=not color,
        highlight=False, color_system="standard" if color else None, legacy_windows=False,
        force_jupyter=False,
    )  # fmt: skip


def _times(console: Console, run: Results, costs: bool, ink: plots_.Ink | None) -> set[str]:
    """Print the table of each group; returns the names of its columns."""
    names, marked = set[str](), bool(highlight.explained(run.cases))
    for cases in run.groups().values():
        console.print()
        console.print(plain(columns.title(cases)))
        shown = columns.rows(cases)
        drawn = highlight.signed(columns.drawn(run, cases), shown if marked else ())
        names |= {column.name for column in drawn}
        for i, part in enumerate(parts(drawn, console.width, lambda c: headed(c.name))):
            table = columns_of([column.name for column in part], left=1)
            for texts, case in zip(zip(*(c.cells for c in part), strict=True), shown, strict=True):
                table.add_row(*map(highlight.cell, texts), style=STYLES.get(case.status))
            put(console, table, above=bool(i))
        if ink and (bars := plots_.lines(run, cases, console.width, ink)):
            console.print(Padding(plain("\n".join(bars), keep="\n"), (1, 0, 0, 0)), soft_wrap=True)
        for said in below_tables.remarks(cases):
            console.print(remark(*said))
        if costs and (once := columns.costs(cases)):
            table = columns_of([column.name for column in once], left=1)
            for texts in zip(*(c.cells for c in once), strict=True):
                table.add_row(*map(plain, texts))
            put(console, table, above=1, left=2)
    console.print()
    return names


def put_gpus(console: Console, run: Results) -> None:
    """Print the table of how the GPUs of a run differ, if each measured everything."""
    names, rows = gpus.table(run)
    if not rows:
        return
    console.print(plain(gpus.TITLE))
    table = columns_of(names, left=2)
    for cells in rows:
        table.add_row(*map(plain, cells))
    put(console, table, [0, 1])
    console.print()


def _in_short(run: Results) -> list[str]:
    """The answer of each group, printed last: where the eye is when a run ends."""
    groups = run.groups().values() if run.timed else ()
    if len(groups) > SHORT:
        return []
    return [f"{' '.join(cases[0].group)}: {answer.sentence(run, cases)}" for cases in groups]


def _checks(console: Console, run: Results) -> set[str]:
    """Print the table of a run that only checked, and the lines below it; returns the names of its columns."""
    console.print()
    found, names = check_table.check_rows(run), set[str]()
    if found:
        marked = bool(highlight.explained(run.cases))
        labels = [f" {highlight.OURS}" if marked and highlight.is_ours(cases[0]) else "" for _, cases in found]
        rows = [[*cells[:2], cells[2] + mark, *cells[3:]] for (cells, _), mark in zip(found, labels, strict=True)]
        names = _check_table(console, rows)
        console.print()
    remarks = check_table.of_checks(run)
    for said in remarks:
        console.print(remark(*said))
    if remarks:
        console.print()
    return names


def _check_table(console: Console, rows: list[list[str]]) -> set[str]:
    headers, rows = check_table.headers_and_rows(rows)
    drawn = [Column(head, list(cells)) for head, *cells in zip(headers, *rows, strict=True)]
    drawn, left_out = fitting(drawn, DROPPED, console.width)
    heads = [c.name for c in drawn]
    table = columns_of(heads, left=4)
    for cells, row in zip(zip(*(c.cells for c in drawn), strict=True), rows, strict=True):
        table.add_row(*map(highlight.cell, cells), style=STYLES.get(row[3]))
    put(console, table, [heads.index(name) for name in ("variant", "kernel")])
    if left_out:
        console.print()
        console.print(without(left_out, "csv"))
    return {*heads}


def parts(drawn: list[Column], width: int, head: Callable[[Column], str]) -> list[list[Column]]:
    """The columns split into tables that fit `width`; each begins with the names. `head`: a column's printed head.

    The first table has what is joined to the names. Where that does not fit, columns that are MOVABLE go to the next
    table; `fitted` then wraps the names.
    """
    blocks: list[list[Column]] = []
    for column in drawn:
        if column.joined and blocks:
            blocks[-1].append(column)
        else:
            blocks.append([column])

    moved: list[Column] = []
    for name in MOVABLE:
        movable = [c for c in blocks[0][1:] if c.name == name and not {*record.BROKEN} & {*c.cells}] if blocks else []
        if movable and taken(blocks[0], head) > width:
            blocks[0].remove(movable[0])
            moved.insert(0, movable[0])
    if moved:
        blocks[1:1] = [moved]
    found: list[list[Column]] = []
    for block in blocks:
        if found and (len(found[-1]) == 1 or taken(found[-1] + block, head) <= width):
            found[-1] += block
        else:
            found.append([drawn[0], *block] if found else [*block])
    return found


def fitting(drawn: list[Column], dropped: Sequence[str], width: int) -> tuple[list[Column], list[str]]:
    """The columns without as many of those that may be `dropped`, in this order, as it takes to fit; their names."""
    left_out = list[str]()
    for name in dropped:
        if taken(drawn, lambda c: headed(c.name)) > width:
            drawn = [c for c in drawn if c.name != name]
            left_out.append(name)
    return drawn, left_out


def without(left_out: Sequence[str], whole: str) -> Text:
    """What is said of columns that a narrow terminal leaves out; `whole`: a format that has them."""
    return plain(f"columns left out: {', '.join(left_out)}; widen the terminal, or give --format {whole}", "dim")


def taken(drawn: Sequence[Column], head: Callable[[Column], str]) -> int:
    """How wide these columns are beside one another."""
    texts = ((head(column), *column.cells) for column in drawn)
    return sum(1 + max(len(line) for text in t for line in visible(text, keep="\n").split("\n")) for t in texts) - 1


def headed(name: str) -> str:
    """A column's name on two lines, cut where the longer line is shortest."""
    words = visible(name).split(" ")
    halves = [(" ".join(words[:i]), " ".join(words[i:])) for i in range(1, len(words))]
    return "\n".join(min(halves, key=lambda half: max(map(len, half)), default=(words[0],)))


def columns_of(names: list[str], left: int) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim", pad_edge=False)
    for i, name in enumerate(names):
        justify: Literal["left", "right"] = "left" if i < left else "right"
        table.add_column(Text(headed(name)), justify=justify, no_wrap=True, vertical="top")
    return table


def fitted(table: Table, width: int, names: Sequence[int] = (0,)) -> Table:
    """The table with its columns of names wrapped, one after the other, until it fits `width`.

    Nothing is cut: where that is not enough, the table is wider than `width`.
    """
    widths = [max(len(line) for cell in (c.header, *c.cells) for line in str(cell).split("\n")) for c in table.columns]
    excess = sum(widths) + len(widths) - 1 - width
    if excess <= 0:
        return table
    rooms = dict[int, int]()
    for i in names:
        rooms[i] = max(widths[i] - max(excess, 0), min(widths[i], LEAST_NAME))
        excess -= widths[i] - rooms[i]
    made = Table(box=None, padding=(0, 1, 0, 0), header_style="dim", pad_edge=False)
    for i, column in enumerate(table.columns):
        made.add_column(column.header, justify=column.justify, no_wrap=True, vertical=column.vertical,
                        min_width=rooms.get(i, widths[i]))  # fmt: skip
    for row, cells in zip(table.rows, zip(*(c.cells for c in table.columns), strict=True), strict=True):
        made.add_row(*(wrapped(c, rooms[i]) if i in rooms else c for i, c in enumerate(cells)), style=row.style)
    return made


def wrapped(name: RenderableType, width: int) -> Text:
    """A name on as many lines as it takes, cut after punctuation; all lines but the first are indented."""
    text, style = str(name), name.style if isinstance(name, Text) else ""
    if len(text) > width and ":" in text:  # a backend and its entry
        halves = text.partition(":")
        if max(len(halves[0]), len(halves[2])) < width:
            return Text(f"{halves[0]}:\n {halves[2]}", style)
    lines = [""]
    for piece in filter(None, _PIECES.findall(text)):
        rest = piece
        while len(lines[-1]) + len(rest) > width:
            if not lines[-1].strip():  # no line has room for it
                lines[-1], rest = lines[-1] + rest[: width - len(lines[-1])], rest[width - len(lines[-1]) :]
            lines.append(" ")
        lines[-1] += rest
    return Text("\n".join(lines), style)


def put(console: Console, table: Table, names: Sequence[int] = (0,), above: int = 0, left: int = 0) -> None:
    """Print a table whole, its columns of names wrapped as needed; one that is still too wide the terminal breaks."""
    table, width = fitted(table, console.width - left, names), console.width
    console.width = max(width, left + console.measure(table, options=console.options.update(width=1 << 10)).minimum)
    console.print(Padding(table, (above, 0, 0, left), expand=False))
    console.width = width


@dataclass(frozen=True)
class Indented:
    """A text two columns to the right. Only where the console has a width, it is broken."""

    text: Text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        if options.no_wrap:  # Padding would cut it
            yield Text("\n").join(Text("  ") + line for line in self.text.split("\n"))
        else:
            yield Padding(self.text, (0, 0, 0, 2))


def remark(status: str, labels: str, text: str) -> Indented:
    said = visible(text, keep="\n")  # a compiler's message has several lines
    line = Text.assemble((status, STYLES.get(status, "dim")), f" {visible(labels)}: {said}")
    return Indented(line)


def plain(text: str, style: str = "", keep: str = "") -> Text:
    """Text without markup: Rich would take [red] for a style, and a terminal would obey escape sequences."""
    return Text(visible(text, keep), style=style)
