from __future__ import annotations

import os
import sys

import click

from cudalab.base.errors import InputError
from cudalab.base.text import visible
from cudalab.cli import complete, options, terminal
from cudalab.cli.measure import REASONED, print_results


@click.command("show")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", shell_complete=complete.files)
@options.format
@click.option("--costs", is_flag=True, help="Also show one-time costs: compilation, first run, graph.")
@click.option("--plots/--no-plots", default=None,
              help="Also show bars of speed-ups and histograms of samples. Default: on a terminal.")  # fmt: skip
@options.everything
@options.selecting
@options.output(f"{options.RESULTS}; only the rows that are shown")
@options.quiet
def command(
    files: tuple[str, ...], format: str, costs: bool, plots: bool | None, everything: bool, output: str, quiet: bool,
    **rows: str,
) -> None:  # fmt: skip
    """Print results that `bench`, `check` or `study` wrote.

    FILE is JSON, JSON Lines or CSV, also with .gz, or a folder of such files. On a terminal, bars of the speed-ups and
    a histogram of each row's samples follow each table. A histogram with two peaks means two groups of times, which
    the median does not describe.

    \b
    cudalab show results.json --format markdown
    cudalab show results.json --kernel gelu --size 'large,2^2*' --plots
    cudalab show results.json --only 'torch_*,gelu_vec' -o part.json
    cudalab show bench/results/h200/ --kernel gelu --size large

    Exit code: 0, or 2 if FILE cannot be read or contains nothing that was selected.
    """
    from cudalab.cli.filter_results import filtered
    from cudalab.results import file

    names = file.expanded(files)
    if len(names) > 1 and (output or format not in REASONED):
        asked = "-o" if output else f"--format {format}"
        raise InputError(f"{asked} is for one file, but {len(names)} were given, {names[0]} and {names[1]} first")
    whole = [file.load(name) for name in names]
    runs = filtered(whole, **rows)
    if output:
        file.writable(output)
        if os.path.realpath(output) == os.path.realpath(names[0]) and len(runs[0].cases) < len(whole[0].cases):
            raise InputError(f"{names[0]} would lose the rows that are not shown; give another file with -o")
        file.save(runs[0], output)
    for name, run in zip(names, runs, strict=True):
        if len(names) > 1 and run.cases:
            click.echo(f"{visible(name)}:" if name == names[0] else f"\n{visible(name)}:")
        if run.cases or len(names) == 1:
            bars = terminal.live(sys.stdout) if plots is None else plots
            print_results(run, format, costs, bars, everything=everything or bool(plots))
    if output:
        terminal.wrote(output)
