from __future__ import annotations

import sys

import click

from cudalab.cli import complete, options, terminal
from cudalab.cli.measure import print_results


@click.command("show")
@click.argument("file", shell_complete=complete.files)
@options.format
@click.option("--costs", is_flag=True, help="Also show one-time costs: compilation, first run, graph.")
@click.option("--plots/--no-plots", default=None,
              help="Also show bars of speed-ups and histograms of samples. Default: on a terminal.")  # fmt: skip
@click.option("--kernels", default="", metavar="GLOBS", help="Show only these kernels.")
@click.option("--sizes", default="", metavar="GLOBS", help="Show only these sizes.")
@click.option("--dtypes", default="", metavar="GLOBS", help="Show only these dtypes.", shell_complete=complete.dtypes)
def command(file: str, format: str, costs: bool, plots: bool | None, kernels: str, sizes: str, dtypes: str) -> None:
    """Print results that `bench`, `check` or `study` wrote.

    FILE is JSON, JSON Lines or CSV. On a terminal, bars of the speed-ups and a histogram of each row's samples follow
    each table. A histogram with two peaks means two groups of times, which the median does not describe.

    \b
    cudalab show results.json --format markdown
    cudalab show results.json --kernels gelu --sizes 'large,2^2*' --plots

    Exit code: 0, or 2 if FILE cannot be read or contains nothing that was selected.
    """
    from cudalab.cli.filter_results import filtered
    from cudalab.results.file import load

    run = filtered(load(file), kernels, sizes, dtypes)
    print_results(run, format, costs, terminal.live(sys.stdout) if plots is None else plots)
