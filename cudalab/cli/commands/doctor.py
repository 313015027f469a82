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

    One line each for GPU, nvcc, host compiler and the tools that single commands need: ready, or missing with the
    reason. Backends that are alike share a line; --format json has each. The last line says what you can do now.

    \b
    cudalab doctor
    cudalab doctor --format json

    Exit code: 0, even if something is missing.
    """
    from cudalab.cli import diagnosis

    found = list(diagnosis.findings())
    if format == "json":
        each = [{"name": name, "state": state, "text": text} for name, state, text in found]
        return click.echo(visible_json(json.dumps(each, indent=1)))
    for label, state, text in diagnosis.folded(found):
        mark = click.style(f"{state:8}", fg={"ready": "green", "missing": "yellow"}.get(state))
        line = terminal.wrapped(f"{label:26}{state:8}{text}", INDENT)
        click.echo(line.replace(f"{state:8}", mark, 1).rstrip())
    return click.echo(terminal.wrapped(diagnosis.possible(found), 0))
