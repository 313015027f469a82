from __future__ import annotations

import sys
import textwrap

import click

from cudalab.cli import terminal

INDENT = 34  # columns before the text: label and state


@click.command("doctor")
def command() -> None:
    """Show what works on this machine and how to install the rest.

    One line each for GPU, nvcc, host compiler, the tools that single commands need, and every backend: ready, or
    missing with the reason.

    \b
    cudalab doctor

    Exit code: 0, even if something is missing.
    """
    from cudalab.cli import diagnosis

    for label, state, text in diagnosis.findings():
        mark = click.style(f"{state:8}", fg={"ready": "green", "missing": "yellow"}.get(state))
        click.echo(f"{label:26}{mark}{_wrapped(text)}".rstrip())


def _wrapped(text: str) -> str:
    """Wrap `text` to the columns that the terminal has left, without breaking paths; in a pipe return it unchanged."""
    columns = terminal.width(sys.stdout)
    if columns is None:
        return text
    room = max(columns - INDENT, 30)
    lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)
    return f"\n{'':{INDENT}}".join(lines)
