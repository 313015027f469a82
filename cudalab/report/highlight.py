"""What stands out in the tables of a terminal: rows of the kernel's `.cu`, and the verdicts FASTER and SLOWER."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.text import Text

from cudalab.base import stats
from cudalab.base.text import visible
from cudalab.report.columns import Column
from cudalab.results import record
from cudalab.results.record import Case

OURS = "*"  # behind the name of a row of the `.cu`
SIGNS = {stats.FASTER: "+", stats.SLOWER: "-"}  # before a verdict, for terminals and eyes without colours
VERDICTS = {stats.FASTER: "green", stats.SLOWER: "red"}


def signed(drawn: list[Column], cases: Sequence[Case] = ()) -> list[Column]:
    """The columns with a sign before FASTER and SLOWER, and OURS behind the names of the .cu among `cases`."""
    found = [
        replace(c, cells=[SIGNS.get(text, "") + text for text in c.cells]) if c.name == "verdict" else c for c in drawn
    ]
    if cases:
        names = zip(found[0].cells, cases, strict=True)
        found[0] = replace(found[0], cells=[f"{name} {OURS}" if is_ours(case) else name for name, case in names])
    return found


def is_ours(case: Case) -> bool:
    """Whether the row is one of the kernel's `.cu`, and not of an earlier one."""
    return case.backend in record.ENTRIES and not case.old


def explained(cases: Sequence[Case]) -> list[str]:
    """The line on OURS; none where there is no other row than those of the `.cu`, or none of it: nothing is marked."""
    rows = [case for case in cases if case.status not in (record.CEILING, record.SKIPPED)]
    mixed = len({case.backend in record.ENTRIES for case in rows}) > 1
    return [f"{OURS} ours: the .cu of the kernel. Other rows are what it is compared with."] if mixed else []


def cell(text: str) -> Text:
    """A cell: a name of ours is bold, a verdict has its colour."""
    return with_colours(Text(visible(text), "bold" if text.endswith(f" {OURS}") else ""))


def with_colours(text: Text) -> Text:
    """The text with its FASTER in green and its SLOWER in red."""
    for verdict, style in VERDICTS.items():
        text.highlight_regex(rf"[+-]?\b{verdict}\b", style)
    return text
