from __future__ import annotations

import sys
import textwrap

import click

from cudalab.cli import terminal

BEFORE = 34  # columns of a line's label and state


@click.command("doctor")
def command() -> None:
    """What runs here, and what to type for the rest.

    GPU, driver, nvcc, the host's compiler, what single commands need, and each backend: ready, or missing, with the
    reason.

    \b
    cudalab doctor

    Exit code: 0, whatever is missing.
    """
    from cudalab.cli import diagnosis

    for label, state, text in diagnosis.findings():
        mark = click.style(f"{state:8}", fg={"ready": "green", "missing": "yellow"}.get(state))
        click.echo(f"{label:26}{mark}{_wrapped(text)}".rstrip())


def _wrapped(text: str) -> str:
    """`text` in the columns that a terminal has left; as it is in a pipe. Words, such as paths, stay whole."""
    columns = terminal.width(sys.stdout)
    if columns is None:
        return text
    room = max(columns - BEFORE, 30)
    lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)
    return f"\n{'':{BEFORE}}".join(lines)
