"""The actors of a run, one a GPU, as a run over several GPUs sees them."""

from __future__ import annotations

from typing import Protocol

from cudalab.tools.gpus.messages import Report


class Fleet(Protocol):
    """Room for `count` actors, numbered from 0. Each gets one thing to do at a time, and answers with one report."""

    count: int
    device: str  # what an actor opens, as `--device` has it
    note: str  # what a user must know of it; "" for nothing

    def hire(self, number: int, order: bytes) -> None:
        """Start an actor, in the place of the one that had this number. Its report is `Opened`, or `Gone`."""

    def give(self, number: int, work: bytes) -> None:
        """Let an actor do a group. Its report is `Answer`, or `Gone`."""

    def dismiss(self, number: int) -> None:
        """End an actor."""

    def reports(self, seconds: float) -> list[tuple[int, Report]]:
        """Wait for reports, so many seconds at most: (number of the actor, report)."""

    def end(self) -> None:
        """End all actors."""
