"""The input and output files of `cudalab report`: what is read, and which file may be replaced."""

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
    """`target` as a path, links not resolved. Raises InputError if it cannot be written or is not a report."""
    named = Path(target)
    if named.suffix.lower() not in SUFFIXES:
        raise InputError(f"{short(target)} has no known format; give a name in .html (a page), .svg or .png (a plot)")
    path = place(target)
    if path.exists() and path.stat().st_size:
        with path.open("rb") as file:
            head = file.read(4096)
        if draw.MARK.encode() not in head:
            raise InputError(f"will not replace {path}, which no cudalab report wrote; give another name with -o")
    return named


def read(paths: Sequence[str]) -> list[tuple[str, Results]]:
    """(path, run) for each file; a file that is named twice is read once."""
    once: dict[str, str] = {}
    for path in paths:
        once.setdefault(os.path.realpath(path), path)
    return [(path, load(path)) for path in once.values()]
