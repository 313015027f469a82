"""Rows of a run: an empty one, a skipped or failed one, and the text of an error in a row."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from cudalab.base.errors import CudalabError, at_line, message_of, out_of_memory
from cudalab.base.text import encodable
from cudalab.engine.selection import Rows, Way
from cudalab.results import record
from cudalab.results.record import Case


class Defined(Protocol):
    """A kernel or study, or a group of one: `file` is the Python file that defines it."""

    @property
    def file(self) -> str: ...


def row(group: Rows[Way], label: str) -> Case:
    """Return an empty row of one variant."""
    backend, _, variant = label.partition(":")
    return Case(group.name, group.size, group.shape, group.dtype.name, backend, variant)


def skipped(group: Rows[Way], label: str, reason: str) -> Case:
    """The row of a variant that cannot run here."""
    case = row(group, label)
    case.status, case.reason = record.SKIPPED, reason
    return case


def elsewhere(group: Rows[Way], variants: Iterable[Way], here: str, no_gpu: str) -> list[Case]:
    """Rows of those of the variants that are for another kind of device than `here`; `no_gpu`: why there is no GPU."""
    reason = f"needs a GPU, and {no_gpu}" if here == "cpu" else "is for the CPU; see it with --device cpu"
    return [skipped(group, v.label, v.why or reason) for v in variants if here not in v.devices]


def failed(group: Rows[Way], label: str, reason: str) -> Case:
    """The row of a variant that could not be run."""
    case = row(group, label)
    case.status, case.reason = record.ERROR, reason
    return case


def not_compiled(cases: Collection[Case]) -> bool:
    """Whether there are entries of a `.cu` among these rows, and no compiler takes it."""
    entries = [case for case in cases if case.backend in record.ENTRIES]
    return bool(entries) and all(
        case.status == record.ERROR and "not compile" in case.reason.partition(":")[0] for case in entries
    )


def refused(cases: list[Case], reason: str) -> list[Case]:
    """These rows without times, where `reason` says why none of them can be trusted; "": as they are."""
    for case in cases if reason else ():
        case.status, case.reason = record.ERROR, reason
        case.lose_times()
    return cases


IMPORTS = {
    "np": "import numpy as np",
    **{name: f"import {name}" for name in ("torch", "cupy", "numpy", "scipy", "math")},
}


def said(error: Exception, kernel: Defined) -> str:
    """The text of an error in a row. An error that is not the lab's has its type, and its line in the spec if any."""
    if isinstance(error, CudalabError):
        return encodable(str(error))
    what = f"out of memory: {error}" if out_of_memory(error) else message_of(error)
    if isinstance(error, NameError) and error.name in IMPORTS:
        what += f"; write {IMPORTS[error.name]!r} in the spec"
    return encodable(at_line(what, error, kernel.file))
