"""Where a command shows what it found, if that is no terminal: a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

import click

if TYPE_CHECKING:
    from cudalab.results.record import Results


class Screen(Protocol):
    """Shows results in its own way; a program gives it to click as `obj`."""

    def progress(self, line: str) -> None:
        """Show how far a run is, in place of the line before."""

    def results(self, run: Results) -> None:
        """Show the results of a run or of a file."""


def given() -> Screen | None:
    """The screen of this command; None: it prints."""
    context = click.get_current_context(silent=True)
    return cast("Screen | None", context.find_root().obj) if context else None
