"""What a check is: what it measures, what is expected of it, and its outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """What a check measured, and whether it passes."""

    ok: bool
    measured: str


@dataclass(frozen=True)
class Check:
    """One check. `work` raises Unavailable if it cannot run here."""

    name: str
    expected: str
    why: str
    work: Callable[[], Outcome]
