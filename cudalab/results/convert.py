"""What `cudalab convert` does: it replaces only files that can be made again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from cudalab.base.errors import InputError, why
from cudalab.base.files import place
from cudalab.results import bounds, formats, salvage
from cudalab.results.file import load, stem
from cudalab.results.json_file import MARK, UNREADABLE
from cudalab.results.record import Results


def read(source: str, cut_off: bool = False) -> Results:
    """The run in the file `source`; with `cut_off` a damaged file gives its whole cases."""
    try:
        return load(source)
    except InputError:
        if not cut_off or not Path(source).is_file():
            raise
        return bounds.check(salvage.salvaged(bounds.read(source), source), source)


def free(target: str, format: str) -> Path:
    """The path to write `target` at. Raises InputError if it cannot be written, or holds data that would be lost.

    A run may replace a run, and an export an export. An export does not replace a run, nor a CSV a file that holds
    more than a CSV.
    """
    path = place(target)
    if not path.exists() or not path.stat().st_size:
        return path
    data = bounds.read(path)
    if format in formats.EXPORTS:
        if not _by_us(data):
            raise InputError(f"will not replace {path}, which is not an earlier export of cudalab; give another name")
        return path
    try:
        load(path)
    except InputError as error:
        raise InputError(f"will not replace {path}, which is not a results file: {error}") from None
    if format == "csv" and formats.found_in(data, str(path)) != "csv":
        raise InputError(f"will not replace {path}, which holds more of a run than a CSV does; give another name")
    return path


def places(sources: Sequence[str], folder: str, format: str | None) -> dict[str, tuple[str, str]]:
    """(file, format) to write for each source, in a folder that is made if need be.

    Raises InputError without a format, and for two sources of one name.
    """
    if not format:
        raise InputError(f"{folder} is a folder; say which format its files get: --to {'|'.join(formats.FORMATS)}")
    ending = f".{format}.json" if format in formats.EXPORTS else f".{format}"
    found = {source: os.path.join(folder, stem(source) + ending) for source in sources}
    for source, path in found.items():
        if other := next((one for one in found if one != source and found[one] == path), ""):
            raise InputError(f"{other} and {source} would both be written to {path}; convert one of them")
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {folder}: {why(error)}; give another for OUT") from None
    return {source: (path, format) for source, path in found.items()}


def _by_us(data: bytes) -> bool:
    try:
        head = msgspec.json.decode(data)
    except UNREADABLE:
        return False
    return isinstance(head, dict) and MARK in head and head.get("format") is None
