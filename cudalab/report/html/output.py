"""The file that a report or a plot is written to: what it may replace, and what is written."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from cudalab.base.errors import InputError, short
from cudalab.base.files import place
from cudalab.report.html import draw
from cudalab.results.file import load
from cudalab.results.record import Results

SUFFIXES = (".html", ".svg", ".png")


def free(target: str) -> Path:
    """`target` as a path, a link as it is named. Raises InputError if it cannot be written, or is not a report's."""
    named = Path(target)
    if named.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"cannot tell what {short(target)} is to be; let it end in .html (a page), .svg or .png (a plot)"
        )
    path = place(target)
    if path.exists() and path.stat().st_size:
        with path.open("rb") as file:
            head = file.read(4096)
        if draw.MARK.encode() not in head:
            raise InputError(f"will not replace {path}, which no cudalab report wrote; give another name with -o")
    return named


def read(paths: Sequence[str]) -> list[tuple[str, Results]]:
    """The runs in the files, each file once, with its path."""
    once: dict[str, str] = {}
    for path in paths:
        once.setdefault(os.path.realpath(path), path)
    return [(path, load(path)) for path in once.values()]
