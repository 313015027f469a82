from __future__ import annotations

import shlex
import sys
from pathlib import PurePath
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from cudalab.base.errors import InputError, short
from cudalab.cli import terminal
from cudalab.cli.options import dtype, kernels, min_effect, only_own, output, quiet, size, skip, store

if TYPE_CHECKING:
    from cudalab.results.record import Case
    from cudalab.tools.history.series import History

OWN = "pycuda"  # the backend whose rows are shown where nothing else is asked for
OPTIONS = {"sizes": "--size", "dtypes": "--dtype", "min_effect": "--min-effect", "output": "-o"}  # by parameter
FORMATS = ("table", "markdown", "json")


@click.command("history")
@kernels("none; the kernels in the history are listed")
@store
@size("all in the history", dest="sizes")
@dtype("all in the history", dest="dtypes")
@only_own
@skip
@click.option("--kind", default="", metavar="LIST", help="Times to show: cold, hot, graph, graph_cold, call, api, "
              "wall, or all. Default: the main kind of each run; cold on a GPU, wall on a CPU.")  # fmt: skip
@min_effect
@click.option("--format", default="table", show_default=True, type=click.Choice(FORMATS),
              help="Format of the printed history.")  # fmt: skip
@output("a page (.html), or every time for other programs (.csv, .parquet)")
@quiet
def command(
    kernels: tuple[str, ...],
    store: str,
    kind: str,
    min_effect: float,
    format: str,
    output: str,
    quiet: bool,
    **rows: str,
) -> None:
    """Show how the times of a kernel changed over all recorded runs.

    A line for each case and card has a trend. Steps that noise does not explain are listed with the run, the commit and
    the sources that changed with them; so are changes of the driver and of libraries, across which times are not mixed.

    \b
    cudalab history
    cudalab history gelu
    cudalab history gelu --size xlarge --dtype float32 -o gelu.html
    cudalab history gelu --kind all --only '*' -o gelu.csv

    Exit code: 0, or 2 if there is no history, it has no such rows, or FILE cannot be written.
    """
    from cudalab.report import history as report
    from cudalab.report.plots import ASCII, BLOCKS
    from cudalab.tools.history import series
    from cudalab.tools.history.store import reading

    given = [name for name in (*rows, "kind", "min_effect", "format", "output") if _given(name)]
    if given and not kernels:
        shown = ", ".join(OPTIONS.get(name, f"--{name}") for name in given)
        raise click.UsageError(f"{shown} needs a kernel: give its name, or '*' for all")
    if output and "format" in given:
        raise click.UsageError("--format is of the printed history; the ending of -o says the format of the file")
    with reading(store) as opened:
        cases = series.cases_of(opened)
        if not cases:
            raise InputError(f"the history {short(store)} has no runs; record some: cudalab record results.json "
                             f"--store {shlex.quote(store)}")  # fmt: skip
        if not kernels:
            terminal.write(lambda width, color: report.summary(series.kernels(opened), store, width, color))
            return
        cases = _chosen(cases, ",".join(kernels), **rows)
        found = series.read(opened, cases, kind, min_effect, store)
    if output:
        _write(found, output)
    elif format == "table":
        ink = BLOCKS if terminal.draws(sys.stdout) else ASCII
        terminal.write(lambda width, color: report.render(found, width, color, ink))
    else:
        click.echo(report.as_json(found) if format == "json" else report.markdown(found))


def _given(option: str) -> bool:
    """Whether the command line has the option."""
    return click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE


def _chosen(every: dict[int, Case], kernels: str, only: str, **rows: str) -> dict[int, Case]:
    """The cases that the options name, with the copies beside them."""
    from cudalab.cli.filter_results import filtered
    from cudalab.results.record import CEILING, FORMAT, VERSION, Machine, Results

    run = Results(FORMAT, VERSION, "", {}, Machine("", ""), cases=list(every.values()))
    kept = filtered(filtered([run], kernels), only=only, **rows)[0].cases
    if not only and any(case.backend == OWN for case in kept):
        kept = [case for case in kept if case.backend == OWN or case.status == CEILING]
    wanted = set(map(id, kept))
    return {number: case for number, case in every.items() if id(case) in wanted}


def _write(found: History, output: str) -> None:
    """Write the page, or every time, as the name's ending says."""
    from cudalab.base.files import place
    from cudalab.report import html
    from cudalab.report.html import output as out
    from cudalab.tools.history import export

    suffix = PurePath(output).suffix.lower()
    if suffix == ".html":
        html.need(suffix)
        html.write_history(out.free(output), found)
    elif suffix in export.WRITERS:
        export.write(found, place(output))
    else:
        raise InputError(f"{short(output)} has no known format; give a name in .html, .csv or .parquet")
    terminal.wrote(output)
