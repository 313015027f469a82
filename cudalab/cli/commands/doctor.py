from __future__ import annotations

import click


@click.command("doctor")
def command() -> None:
    """What this machine can do: GPU, driver, nvcc, and for each backend ready, or why not and what to type."""
    from cudalab import diagnosis

    for label, state, text in diagnosis.findings():
        mark = click.style(f"{state:8}", fg={"ready": "green", "missing": "yellow"}.get(state))
        click.echo(f"{label:26}{mark}{text}".rstrip())
