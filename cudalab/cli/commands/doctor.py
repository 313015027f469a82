from __future__ import annotations

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
        line = terminal.wrapped(f"{label:26}{state:8}{text}", INDENT)
        click.echo(line.replace(f"{state:8}", mark, 1).rstrip())
