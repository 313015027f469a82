"""Comma-separated lists, and globs that select variants by label."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable

from cudalab.base.errors import InputError


def split(text: str) -> tuple[str, ...]:
    """Return the words of a comma-separated list."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def joined(value: object) -> str:
    """Return `value` as a comma-separated list: it is one already, or a sequence of words or numbers."""
    if isinstance(value, (str, int, os.PathLike)):
        return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    if isinstance(value, Iterable):
        return ",".join(joined(v) for v in value)
    raise InputError(f"got {value!r}; give a comma-separated text or a list")


def fits(label: str, globs: Iterable[str]) -> bool:
    """Tell whether a glob matches a variant's label (`backend` or `backend:entry`), its backend or its entry."""
    backend, _, entry = label.partition(":")
    names = label, backend, entry or backend
    return any(fnmatch.fnmatchcase(name, glob) for name in names for glob in globs)
