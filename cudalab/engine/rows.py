"""Rows of a run's table: empty ones, those of what could not be run, and what they say of an error."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Protocol

from cudalab.base.errors import CudalabError, named
from cudalab.base.text import encodable
from cudalab.engine.plan import Rows, Way
from cudalab.results import record
from cudalab.results.record import Case


class Defined(Protocol):
    """What is defined in a file of Python: a kernel by its spec, a study."""

    @property
    def file(self) -> str: ...


def row(group: Rows[Way], label: str) -> Case:
    """An empty row of one variant."""
    backend, _, variant = label.partition(":")
    return Case(group.name, group.size, group.shape, group.dtype.name, backend, variant)


def skipped(group: Rows[Way], label: str, reason: str) -> Case:
    """The row of a variant that cannot run here."""
    case = row(group, label)
    case.status, case.reason = record.SKIPPED, reason
    return case


def failed(group: Rows[Way], label: str, reason: str) -> Case:
    """The row of a variant that could not be run."""
    case = row(group, label)
    case.status, case.reason = record.ERROR, reason
    return case


def said(error: Exception, kernel: Defined) -> str:
    """An error as a row shows it: our own as they are, others with their type and the line of the spec, if any."""
    if isinstance(error, CudalabError):
        return encodable(str(error))
    name = type(error).__name__
    what = f"out of memory: {error}" if "MemoryError" in name or "OutOfMemory" in name else named(error)
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == kernel.file]
    return encodable(f"{what} ({Path(kernel.file).name}, line {lines[-1]})" if lines else what)
