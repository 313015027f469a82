"""Python modules that a backend generates from a spec's expression, for compilers that read a kernel from a file."""

from __future__ import annotations

import hashlib
from types import ModuleType

from cudalab.base import files
from cudalab.base.cache import folder
from cudalab.spec import find


def module(text: str, place: str) -> ModuleType:
    """The module of this text, which is kept in the folder `place` of the cache."""
    path = folder(place) / f"pointwise_{hashlib.sha256(text.encode()).hexdigest()[:16]}.py"
    if not path.exists() or path.read_bytes() != text.encode():
        files.write(path, text.encode(), mode=0o600)
    return find.loaded(path)
