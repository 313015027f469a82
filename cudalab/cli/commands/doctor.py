from __future__ import annotations

import json

import click

from cudalab.base.text import visible_json
from cudalab.cli import terminal
from cudalab.cli.options import table_or_json

INDENT = 34  # columns before the text: label and state


@click.command("doctor")
@table_or_json
def command(format: str) -> None:
    """Show what works on this machine and how to install the rest.

    One line each for GPU, nvcc, host compiler, the tools that single commands need, and every backend: ready, or
    missing with the reason.

    \b
    cudalab doctor
    cudalab doctor --format json

    Exit code: 0, even if something is missing.
    """
    from cudalab.cli import diagnosis

    if format == "json":
        found = [{"name": name, "state": state, "text": text} for name, state, text in diagnosis.findings()]
        return click.echo(visible_json(json.dumps(found, indent=1)))
    for label, state, text in diagnosis.findings():
        mark = click.style(f"{state:8}", fg={"ready": "green", "missing": "yellow"}.get(state))
        line = terminal.wrapped(f"{label:26}{state:8}{text}", INDENT)
        click.echo(line.replace(f"{state:8}", mark, 1).rstrip())
    return None
