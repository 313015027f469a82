"""Tables of tests in text files: tests/data/tables/NAME.txt, and entries of other files."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

TABLES = Path(__file__).parents[1] / "data" / "tables"
COMMENT = ("#", "//")
Read = Callable[[str], Any]


def table(name: str, heading: str, *read: Read) -> list[Any]:
    """The lines below `## heading`, cut at ` => `: tuples of texts, or of what `read` makes of the texts, one for all
    columns or one for each.

    A line with one text gives that. In a text `\\n` is a line break. A line that begins with `# ` is a comment.
    """
    part = f"\n{(TABLES / f'{name}.txt').read_text()}\n".partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line.replace("\\n", "\n") for line in part.split("\n") if line and not line.startswith("# ")]
    assert lines, f"{name}.txt has no lines below ## {heading}"
    rows = [re.split(" => | =>$", line) for line in lines]
    reads = read if len(read) > 1 else (*(read or (str,)),) * len(rows[0])
    made = [tuple(make(text) for make, text in zip(reads, row, strict=True)) for row in rows]
    return [row if len(row) > 1 else row[0] for row in made]


def entries(pattern: str, text: str) -> list[Any]:
    """What re.findall finds in a text that has nothing else but comments, so that no mistyped entry is left out."""
    lines = re.sub(pattern, "", text, flags=re.MULTILINE).splitlines()
    assert not (left := [line for line in lines if line.strip() and not line.startswith(COMMENT)]), left
    return re.findall(pattern, text, re.MULTILINE)
