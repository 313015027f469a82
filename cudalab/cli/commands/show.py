from __future__ import annotations

import click

from cudalab.cli.options import FORMATS
from cudalab.cli.work import printed


@click.command("show")
@click.argument("file")
@click.option("--format", default="table", show_default=True, type=click.Choice(FORMATS))
@click.option("--costs", is_flag=True, help="Also show what is spent once: compilation, first run, graph.")
def command(file: str, format: str, costs: bool) -> None:
    """Print the results in FILE, as `bench` or `check` wrote them.

    \b
    cudalab show results.json --format markdown
    """
    from cudalab import results

    printed(results.load(file), format, costs)
