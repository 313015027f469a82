"""The file that a report or a plot is written to: what it may replace, and what is written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cudalab.errors import InputError, short
from cudalab.report.html import draw
from cudalab.results import Results, load, place

SUFFIXES = (".html", ".svg", ".png")


def free(target: str) -> Path:
    """Where `target` is to be written. Raises InputError if it cannot be, or if it holds what is not a report's."""
    suffix = Path(target).suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(
            f"cannot tell what {short(target)} is to be; let it end in .html (a page), .svg or .png (a plot)"
        )
    path = place(target)
    if path.exists() and path.stat().st_size:
        with path.open("rb") as file:
            head = file.read(4096)
        if draw.MARK.encode() not in head:
            raise InputError(f"will not replace {path}, which no cudalab report wrote; give another name with -o")
    return path


def read(paths: Sequence[str]) -> list[tuple[str, Results]]:
    """The runs in the files, each file once, with its path."""
    once: dict[Path, str] = {}
    for path in paths:
        once.setdefault(Path(path).resolve(), path)
    return [(path, load(path)) for path in once.values()]
