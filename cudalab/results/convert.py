"""What `cudalab convert` does to files: nothing that cannot be made again is replaced."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cudalab.base.errors import InputError
from cudalab.base.files import place, write
from cudalab.results import formats, salvage
from cudalab.results.record import load

__all__ = ["converted", "free", "write"]


def converted(source: str, format: str, cut_off: bool = False) -> bytes:
    """The run in the file `source` as the bytes of another file; `cut_off`: what is whole in it."""
    try:
        run = load(source)
    except InputError:
        if not cut_off or not Path(source).is_file():
            raise
        run = salvage.salvaged(Path(source).read_bytes(), source)
    return formats.encoded(run, format)


def free(target: str, format: str) -> Path:
    """Where `target` is to be written. Raises InputError if it cannot, or holds what would be lost.

    A run may replace a run, and an export an export; an export or a CSV does not replace a run that has more.
    """
    path = place(target)
    if not path.exists() or not path.stat().st_size:
        return path
    data = path.read_bytes()
    if format in formats.EXPORTS:
        if not _by_us(data):
            raise InputError(f"will not replace {path}, which is no earlier export of cudalab; give another name")
        return path
    try:
        load(path)
    except InputError as error:
        raise InputError(f"will not replace {path}, which is not a run's: {error}") from None
    if format == "csv" and formats.found_in(data, str(path)) != "csv":
        raise InputError(f"will not replace {path}, which holds more of a run than a CSV does; give another name")
    return path


def _by_us(data: bytes) -> bool:
    try:
        head = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return isinstance(head, dict) and formats.MARK in head and head.get("format") is None
