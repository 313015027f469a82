from __future__ import annotations

import click


@click.command("doctor")
def command() -> None:
    """What runs here, and what to type for the rest.

    GPU, driver, nvcc, the host's compiler, and each backend: ready, or missing, with the reason.

    \b
    cudalab doctor

    Exit code: 0, whatever is missing.
    """
    from cudalab import diagnosis

    for label, state, text in diagnosis.findings():
        mark = click.style(f"{state:8}", fg={"ready": "green", "missing": "yellow"}.get(state))
        click.echo(f"{label:26}{mark}{text}".rstrip())
