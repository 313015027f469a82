from __future__ import annotations

import sys

import click

from cudalab.cli import complete, terminal
from cudalab.cli.options import FORMATS
from cudalab.cli.work import printed


@click.command("show")
@click.argument("file", shell_complete=complete.files)
@click.option("--format", default="table", show_default=True, type=click.Choice(FORMATS))
@click.option("--costs", is_flag=True, help="Also show what is spent once: compilation, first run, graph.")
@click.option("--plots/--no-plots", default=None,
              help="Bars of the speed-ups, and how each row's samples are spread. Default: on a terminal.")  # fmt: skip
@click.option("--kernels", default="", metavar="GLOBS", help="Show these kernels alone.")
@click.option("--sizes", default="", metavar="GLOBS", help="Show these sizes alone.")
@click.option("--dtypes", default="", metavar="GLOBS", help="Show these dtypes alone.", shell_complete=complete.dtypes)
def command(file: str, format: str, costs: bool, plots: bool | None, kernels: str, sizes: str, dtypes: str) -> None:
    """Print results that `bench`, `check` or `study` wrote.

    In FILE, as JSON, JSON Lines or CSV. On a terminal each table is followed by a bar for each row, as long as it is
    fast, and by a histogram of its samples: two humps are two groups of times, of which the median says little.

    \b
    cudalab show results.json --format markdown
    cudalab show results.json --kernels gelu --sizes 'large,2^2*' --plots

    Exit code: 0, or 2 if FILE cannot be read or has nothing of what is chosen.
    """
    from cudalab.cli.selection import chosen
    from cudalab.results.file import load

    run = chosen(load(file), kernels, sizes, dtypes)
    printed(run, format, costs, terminal.live(sys.stdout) if plots is None else plots)
