"""Rivals of a test, in the form of the command line: worker processes import them by file or module, and by name."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from cudalab.base import globs
from cudalab.base.errors import InputError, short
from cudalab.tools.pytest.cases import located

Rivals = str | Sequence[str] | Mapping[str, Any]


def as_text(rivals: Rivals, folder: Path) -> str:
    """`mine=FILE:FUNCTION` from texts (a file is relative to `folder`), or from functions by name.

    Raises InputError for a function that another process cannot find by its name.
    """
    if isinstance(rivals, Mapping):
        return ",".join(f"{name}={_place(value)}" for name, value in rivals.items())
    return ",".join(_located(text, folder) for text in globs.split(globs.joined(rivals)))


def _located(text: str, folder: Path) -> str:
    label, sign, rest = text.rpartition("=")
    module, colon, attribute = rest.partition(":")
    place = located(module, folder) if module.endswith(".py") or os.sep in module else module
    return f"{label}{sign}{place}{colon}{attribute}"


def _place(value: Any) -> str:
    """Where another process finds a function: file or module, name, and the words that say how it is called."""
    function, *words = value if isinstance(value, tuple) and value else (value,)
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    found = _named(module, name)
    if not callable(function) or found is not function:
        raise InputError(
            f"the rival {short(function)} cannot be imported by its name, as the worker processes must "
            "do; define it with def at the top level of the test's file or of another"
        )
    return ":".join([_installed(module) or str(sys.modules[module].__file__), name, *words])


def _named(module: str, name: str) -> Any:
    try:
        return attrgetter(name)(sys.modules[module])
    except (AttributeError, KeyError, TypeError):
        return None


def _installed(module: str) -> str:
    """The module's name if each process can import it by that, else an empty text."""
    file = getattr(sys.modules[module], "__file__", None)
    folders = (sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib", "stdlib"))
    return module if file is None or file.startswith(tuple(folders)) else ""
