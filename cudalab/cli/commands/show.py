from __future__ import annotations

import os
import sys

import click

from cudalab.base.errors import InputError
from cudalab.cli import complete, options, terminal
from cudalab.cli.measure import print_results


@click.command("show")
@click.argument("file", shell_complete=complete.files)
@options.format
@click.option("--costs", is_flag=True, help="Also show one-time costs: compilation, first run, graph.")
@click.option("--plots/--no-plots", default=None,
              help="Also show bars of speed-ups and histograms of samples. Default: on a terminal.")  # fmt: skip
@options.selecting
@options.output(f"{options.RESULTS}; only the rows that are shown")
@options.quiet
def command(
    file: str, format: str, costs: bool, plots: bool | None, output: str, quiet: bool, **rows: str
) -> None:  # fmt: skip
    """Print results that `bench`, `check` or `study` wrote.

    FILE is JSON, JSON Lines or CSV. On a terminal, bars of the speed-ups and a histogram of each row's samples follow
    each table. A histogram with two peaks means two groups of times, which the median does not describe.

    \b
    cudalab show results.json --format markdown
    cudalab show results.json --kernel gelu --size 'large,2^2*' --plots
    cudalab show results.json --only 'torch_*,gelu_vec' -o part.json

    Exit code: 0, or 2 if FILE cannot be read or contains nothing that was selected.
    """
    from cudalab.cli.filter_results import filtered
    from cudalab.results.file import load, save, writable

    whole = load(file)
    (run,) = filtered([whole], **rows)
    if output:
        writable(output)
        if os.path.realpath(output) == os.path.realpath(file) and len(run.cases) < len(whole.cases):
            raise InputError(f"{file} would lose the rows that are not shown; give another file with -o")
        save(run, output)
    print_results(run, format, costs, terminal.live(sys.stdout) if plots is None else plots)
    if output:
        terminal.wrote(output)
