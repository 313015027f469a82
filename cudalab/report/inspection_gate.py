"""Two inspections compared: as tables for a terminal, as Markdown for a pull request, or as JSON."""

from __future__ import annotations

import io
import json
from math import isinf

from cudalab.base import numbers
from cudalab.base.errors import unknown
from cudalab.report.comparison import FORMATS
from cudalab.report.markdown import inline, tabled
from cudalab.report.table import columns_of, fitted, plain, screen
from cudalab.tools.inspect.gate import BETTER, SAME, WORSE, Change, Gate

HEADERS = ["entry", "figure", "old", "new", "change", "verdict"]
STYLES = {WORSE: "bold red", BETTER: "green", SAME: ""}


def render(found: Gate, names: tuple[str, str], format: str, width: int | None = None, color: bool = False) -> str:
    """All of `found`; `names` are those of the old and the new file. `width` and `color` are for the table alone."""
    if format == "table":
        return _table(found, names, width, color)
    if format == "markdown":
        return _markdown(found, names)
    if format == "json":
        return json.dumps(_document(found, names), indent=1, allow_nan=False)
    raise unknown("format", format, FORMATS)


def sentence(found: Gate) -> str:
    """Return the comparison in one sentence."""
    if found.refusal:
        return found.refusal[0].upper() + found.refusal[1:]
    counts, total = found.counts, len(found.changes)
    entries = len({change.row.of_entry for change in found.changes})
    worse = f"{counts[WORSE]} of {total} figures {'is' if counts[WORSE] == 1 else 'are'} WORSE"
    head = worse if counts[WORSE] else f"None of {total} figures is worse"
    others = ", ".join(f"{counts[v]} {v}" for v in (BETTER, SAME) if counts[v])
    limit = f"tolerance {numbers.compact(100 * found.tolerance)} %"
    return f"{head}: {others + '; ' if others else ''}{entries} {'entry' if entries == 1 else 'entries'}, {limit}"


def cells(change: Change) -> list[str]:
    """Return one row, in the order of HEADERS."""
    old, new = (_value(change.figure, value) for value in (change.old, change.new))
    by = "from 0" if isinf(change.share) else f"{100 * change.share:+.1f} %"
    entry = f"{change.row.entry}, launch {change.row.launch}" if change.row.launch else change.row.entry
    return [entry, change.figure, old, new, by, change.verdict]


def _value(figure: str, value: float) -> str:
    if figure == "predicted time":
        return f"{numbers.significant(1e6 * value, 4)} \u00b5s"
    if figure == "instructions per element":
        return numbers.significant(value, 4)
    return f"{value:,.0f}" + ("" if figure == "registers" else " B")


def _groups(found: Gate) -> dict[str, list[Change]]:
    """The figures that changed, by kernel, shape, dtype and architecture; the worst of each first."""
    groups: dict[str, list[Change]] = {}
    for change in found.changes:
        if change.old != change.new:
            row = change.row
            title = f"{row.kernel}  {' x '.join(map(str, row.shape))}  {row.dtype}  {row.architecture}  {row.card}"
            groups.setdefault(title.rstrip(), []).append(change)
    return {title: sorted(changes, key=lambda c: -c.share) for title, changes in groups.items()}


def _remarks(found: Gate) -> list[str]:
    differing = [f"differs: {text}" for text in found.differences]
    return [*differing, *(f"only in the old file: {key}" for key in found.gone), *(
        f"only in the new file: {key}" for key in found.added
    )]  # fmt: skip


def _table(found: Gate, names: tuple[str, str], width: int | None, color: bool) -> str:
    out = io.StringIO()
    console = screen(out, width, color)
    console.print(plain(f"{names[0]} -> {names[1]}", "bold"))
    for text in _remarks(found):
        console.print(plain(text, "yellow"))
    for title, changes in _groups(found).items() if not found.refusal else ():
        console.print()
        console.print(plain(title))
        table = columns_of(HEADERS, left=2)
        for change in changes:
            table.add_row(*map(plain, cells(change)), style=STYLES[change.verdict])
        console.print(fitted(table, console.width))
    console.print()
    console.print(plain(sentence(found), "bold red" if found.exit_code else "bold green"))
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


def _markdown(found: Gate, names: tuple[str, str]) -> str:
    lines = [f"**{inline(sentence(found))}**", "", f"{inline(names[0])} \u2192 {inline(names[1])}"]
    points = [f"- {inline(text)}" for text in _remarks(found)]
    lines += ["", *points] if points else []
    body = [[title, *cells(change)] for title, changes in _groups(found).items() for change in changes]
    if body and not found.refusal:
        lines += ["", *tabled(["kernel", *HEADERS], body)]
    return "\n".join(lines)


def _document(found: Gate, names: tuple[str, str]) -> dict[str, object]:
    return {
        "format": "cudalab-inspection-comparison", "version": 1, "old": names[0], "new": names[1],
        "sentence": sentence(found), "exit_code": found.exit_code, "tolerance": found.tolerance,
        "counts": found.counts, "differences": found.differences, "only_old": found.gone, "only_new": found.added,
        "changes": [
            {"kernel": c.row.kernel, "entry": c.row.entry, "dtype": c.row.dtype, "architecture": c.row.architecture,
             "shape": c.row.shape, "launch": c.row.launch, "figure": c.figure, "old": c.old, "new": c.new,
             "verdict": c.verdict}
            for c in found.changes
        ],
    }  # fmt: skip
