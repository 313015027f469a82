"""The run of a study for a terminal and in Markdown, and the list of all studies."""

from __future__ import annotations

import io
import textwrap

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cudalab.base.text import visible
from cudalab.report import below_tables, columns, highlight, study, table
from cudalab.report import plots as plots_
from cudalab.report.columns import Column
from cudalab.report.markdown import inline, opening, remarks, skipped, tabled
from cudalab.results.record import Results
from cudalab.study import found
from cudalab.study.record import Study

NARROW = 9  # characters; a shorter head stays on one line


def render(
    run: Results, width: int | None, color: bool, costs: bool = False, plots: str = "", height: int | None = None
) -> str:
    """The run for a terminal, at most `width` columns wide; `costs`, `plots` and `height` as in `table.render`."""
    page = table.Page(width, height, color)
    console = page.body
    page.top.print(table.plain(study.heading(run), "bold"))
    page.top.print(table.plain(columns.heading(run)))
    for text in columns.warnings(run):
        page.top.print(table.plain(text, "bold yellow"))
    for cases in run.groups().values():
        console.print()
        console.print(table.plain(study.title(run, cases)))
        split = table.parts(highlight.signed(study.table(run, cases)), console.width, _head)
        if not split:
            console.print(table.plain("no variant runs here", "dim"))
        for i, part in enumerate(split):
            table.put(console, _drawn(part, [c.status for c in study.shown(cases)]), above=bool(i))
        if plots and (lines := plots_.lines(run, cases, console.width, table.INKS[plots])):
            console.print(Padding(table.plain("\n".join(lines), keep="\n"), (1, 0, 0, 0)), soft_wrap=True)
        for said in below_tables.remarks(cases):
            console.print(table.remark(*said))
        if costs and (once := study.costs(cases)):
            table.put(console, _drawn(once, [""] * len(once[0].cells)), above=1, left=2)
    console.print()
    for labels, reason in below_tables.skipped(run):
        console.print(table.remark("skipped", labels, reason))
    for line in study.footer(run) + (plots_.legend(run, console.width) if plots and run.main_kind else []):
        page.legend.print(table.plain(line, "dim"))
    if text := study.conclusion(run):
        page.end.print(highlight.with_colours(table.plain(text, "bold")))
    return page.text()


def _head(column: Column) -> str:
    """The name, wrapped to about the width of the cells below it."""
    name = visible(column.name)
    if name.startswith(("x ", "95 ")):
        return name
    widest = max(NARROW, *map(len, column.cells), *map(len, name.split()))
    return "\n".join(textwrap.wrap(name, widest, break_on_hyphens=False))


def _drawn(part: list[Column], statuses: list[str]) -> Table:
    drawn = Table(box=None, padding=(0, 1, 0, 0), header_style="dim", pad_edge=False)
    for i, column in enumerate(part):
        drawn.add_column(Text(_head(column)), justify="right" if i else "left", no_wrap=True, vertical="bottom")
    for cells, status in zip(zip(*(column.cells for column in part), strict=True), statuses, strict=True):
        drawn.add_row(*map(highlight.cell, cells), style=table.STYLES.get(status))
    return drawn


def markdown(run: Results) -> str:
    """The run in Markdown."""
    lines = [f"**{inline(study.heading(run))}**", "", opening(columns.heading(run))]
    lines += map(inline, columns.warnings(run))
    for cases in run.groups().values():
        drawn = study.table(run, cases)
        rows = [list(row) for row in zip(*(column.cells for column in drawn), strict=True)]
        lines += ["", f"**{inline(study.title(run, cases))}**", ""]
        lines += tabled([column.name for column in drawn], rows) if drawn else ["no variant runs here"]
        lines += ["", *remarks(below_tables.remarks(cases))]
    lines += ["", *skipped(below_tables.skipped(run))]
    lines += ["", *(f"- {inline(text)}" for text in study.footer(run))]
    lines += ["", f"**{inline(text)}**"] if (text := study.conclusion(run)) else []
    return "\n".join(lines).replace("\n\n\n", "\n\n")


def listed(width: int | None, color: bool) -> str:
    """All studies, one row each: the question and the sizes."""
    out = io.StringIO()
    console = table.screen(out, width, color)
    drawn = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for head, ratio in (("study", None), ("question", 3), ("sizes", 2)):
        drawn.add_column(head, ratio=ratio, overflow="fold", no_wrap=head == "study")
    for name, one in found.studies().items():
        drawn.add_row(*map(table.plain, (name, one.summary, ", ".join(one.sizes))))
    console.print(drawn)
    console.print()
    console.print(table.plain("More about one study: cudalab study list NAME", "dim"))
    return table.finished(out, width)


def described(one: Study, width: int | None, color: bool) -> str:
    """One study: the question, sizes, settings, variants, and the articles whose numbers it compares with."""
    out = io.StringIO()
    console = table.screen(out, width, color)
    console.print(table.plain(f"{one.name}: {one.summary}", "bold"))
    for line in study.sentences(one.about):
        console.print(table.plain(line))
    for head, rows in _facts(one).items():
        if rows:
            _fact(console, head, rows)
    return table.finished(out, width)


def _fact(console: Console, head: str, rows: list[tuple[str, str]]) -> None:
    console.print(table.plain(f"\n{head}", "dim", keep="\n"))
    drawn = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    drawn.add_column(no_wrap=True)
    drawn.add_column(overflow="fold")
    for row in rows:
        drawn.add_row(*map(table.plain, row))
    console.print(Padding(drawn, (0, 0, 0, 2)))


def _facts(one: Study) -> dict[str, list[tuple[str, str]]]:
    """Headings, and under each (name, explanation) pairs."""
    usual = {size: [d for d, names in one.defaults.items() if size in names] for size in one.sizes}
    on = {"cuda": "a GPU", "cpu": "a CPU"}
    places = {size: f" (default on {' and '.join(on[d] for d in found_)})" if found_ else ""
              for size, found_ in usual.items()}  # fmt: skip
    return {
        "sizes, for --size": [(size, study.in_words(p) + places[size]) for size, p in one.sizes.items()],
        "settings, for --set": [(f"{key}={value}", "") for key, value in one.settings.items()],
        "variants, for --only and --skip": [
            (v.label, "; ".join(filter(None, (
                "what the others are compared with" if v.label == one.baseline else "",
                f"only on {on[v.devices[0]]}{v.why and f': {v.why}'}" if len(v.devices) == 1 else "",
                f"only at {', '.join(v.sizes)}" if v.sizes else "",
            ))))
            for v in one.variants
        ],
        "not here": [(on[d], one.why) for d in on if d not in one.defaults and one.why],
        "published": [(p.source, p.machine) for p in one.published],
    }  # fmt: skip
