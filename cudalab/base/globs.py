"""Comma-separated lists, and globs over the labels of variants."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable

from cudalab.base.errors import InputError


def split(text: str) -> tuple[str, ...]:
    """The words of a comma-separated list."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def joined(value: object) -> str:
    """A comma-separated list from such a list or from a sequence of words or numbers."""
    if isinstance(value, (str, int, os.PathLike)):
        return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    if isinstance(value, Iterable):
        return ",".join(joined(v) for v in value)
    raise InputError(f"cannot read {value!r}; give a comma-separated text or a list")


def fits(label: str, globs: Iterable[str]) -> bool:
    """Whether one of the globs is for a variant's label, `backend` or `backend:entry`, or for its backend."""
    names = label, label.partition(":")[0]
    return any(fnmatch.fnmatchcase(name, glob) for name in names for glob in globs)
