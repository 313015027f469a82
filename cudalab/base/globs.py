"""Comma-separated lists, and globs that select variants by label."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable

from cudalab.base.errors import InputError


def split(text: str) -> tuple[str, ...]:
    """Return the words of a comma-separated list. A comma within brackets is part of a word: `row_sum<64, float>`."""
    words, depth = [""], 0
    for char in text:
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            words.append("")
        else:
            words[-1] += char
    return tuple(word.strip() for word in (words if depth == 0 else text.split(",")) if word.strip())


def names_of(text: str) -> tuple[str, ...]:
    """The names in a comma-separated list of kernels. What exists as a file or folder is one, with its commas."""
    return (text,) if os.path.exists(text) else split(text) or (text,)


def words_of(option: str, text: str) -> tuple[str, ...]:
    """The words of an option. Raises InputError if the text has no word, such as a lone comma."""
    words = split(text)
    if text and not words:
        raise InputError(f"{option} is {text!r}, which has no name in it; leave it out, or see `cudalab list`")
    return words


def joined(value: object) -> str:
    """Return `value` as a comma-separated list: it is one already, or a sequence of words or numbers."""
    if isinstance(value, (str, int, os.PathLike)):
        return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    if isinstance(value, Iterable):
        return ",".join(joined(v) for v in value)
    raise InputError(f"got {value!r}; give a comma-separated text or a list")


def halves(glob: str) -> tuple[str, str]:
    """The backend and the entry that a glob names: ("pycuda", "k") for `pycuda:k`, ("", "ns::k") for `ns::k`."""
    parts = re.split("(?<!:):(?!:)", glob, maxsplit=1)
    return (parts[0], parts[1]) if parts[1:] else ("", glob)


def match(name: str, glob: str) -> bool:
    """Tell whether a glob matches a name; a name matches itself, whatever characters it has."""
    return name == glob or fnmatch.fnmatchcase(name, glob)


def fits(label: str, globs: Iterable[str]) -> bool:
    """Tell whether a glob matches a variant's label (`backend` or `backend:entry`), its backend or its entry."""
    backend, _, entry = label.partition(":")
    names = label, backend, entry or backend
    return any(match(name, glob) for name in names for glob in globs)
