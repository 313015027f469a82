from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

import click

from cudalab.base.errors import InputError
from cudalab.cli import complete, options, terminal

if TYPE_CHECKING:
    from cudalab.results.record import Results


@click.command("report")
@click.argument("files", nargs=-1, required=True, metavar="RESULTS...", shell_complete=complete.files)
@options.output("a page (.html) or one plot (.svg, .png)", required=True)
@click.option("--chart", default="", metavar="NAME",
              help="Plot to draw: rivals and gpus (of all kernels), speedup, cold, hot, graph, graph_cold, call, api, "
                   "wall, samples, roofline, bandwidth, accuracy, error. Default: speedup.")  # fmt: skip
@options.kernel("all in the files; a plot shows one")
@options.size("all in the files; for a plot, the largest")
@options.dtype("all in the files; a plot shows one")
@options.only
@options.skip
@click.option("--kind", default="", metavar="NAME", help="Times that speedup, samples and bandwidth show, such as hot "
              "or graph. Default: cold; on a CPU wall.")  # fmt: skip
@click.option("--scale", type=click.FloatRange(0.1, 20), metavar="X", help="Pixels of a PNG per unit. Default: 3.")
@click.option("--bare", is_flag=True, help="Draw the plot without its title, as for a paper with captions.")
@options.quiet
def command(
    files: tuple[str, ...], output: str, chart: str, kernel: str, size: str, dtype: str, only: str, skip: str,
    kind: str, scale: float | None, bare: bool, quiet: bool,
) -> None:  # fmt: skip
    """Draw results as a page to share or as a plot for a paper.

    The page is one file that loads nothing else. It begins with one picture for each card: every kernel against its
    fastest rival, losses first. Then it shows a roofline, one kernel at a time (speed-ups, times, samples, bandwidth
    over sizes, errors), a table of all numbers to sort and filter, and the machine. Of many kernels the page shows the
    main charts of each; --kernel makes the page of one with all. Several RESULTS are shown together; a folder stands
    for the results files in it.

    \b
    cudalab report results.json checks.json -o report.html
    cudalab report results.json -o gelu.html --kernel gelu --only 'pycuda,torch_*'
    cudalab report results/ -o all.svg --chart rivals
    cudalab report results.json -o out.svg --chart bandwidth --dtype float16
    cudalab report results.json -o out.png --kernel gelu --size large

    Exit code: 0, or 2 if RESULTS cannot be read or contain nothing to draw, or FILE cannot be written or exists and is
    not a report.
    """
    from cudalab.base import numbers
    from cudalab.cli.filter_results import filtered
    from cudalab.cli.live import status_line
    from cudalab.report import html
    from cudalab.report.html import output as out
    from cudalab.results import file

    names = file.expanded(files)
    given = [name for name, value in {"chart": chart, "kind": kind, "scale": scale, "bare": bare}.items() if value]
    target = out.free(output)
    page = target.suffix.lower() == ".html"
    if page and given:
        raise InputError(f"--{given[0]} is for a single plot; give a name in .svg or .png with -o")
    if scale and target.suffix.lower() != ".png":
        raise InputError("--scale is for a PNG; an SVG has no pixels")
    start = monotonic()
    with status_line(quiet) as now:
        now(f"reading {len(names)} file{'s' if len(names) > 1 else ''}")
        loaded = out.read(names)
        html.need(target.suffix.lower())
        runs = filtered([run for _, run in loaded], kernel, size, dtype, only, skip)
        kept = [(path, run) for (path, _), run in zip(loaded, runs, strict=True) if run.cases]
        now(f"drawing {'a page' if page else 'a plot'} of {sum(len(run.cases) for _, run in kept):,} rows")
        if page:
            html.write_page(target, kept)
        else:
            drawn = [run for _, run in kept]
            asked = {"kernel": kernel, "dtype": dtype, "size": size}
            one = chart not in ("rivals", "gpus")  # which show all that the options select
            which = {what: _one(what, text, drawn) for what, text in asked.items() if one}
            html.write_plot(target, drawn, chart or "speedup", scale or 3, not bare, kind=kind, **which)
    terminal.wrote(output, f" ({numbers.amount(target.stat().st_size)}B, {monotonic() - start:.0f} s)")


def _one(what: str, text: str, runs: list[Results]) -> str:
    """The name of the one kernel, size or dtype that `text` stands for; "" if it is empty."""
    if not text:
        return ""
    first, *more = dict.fromkeys(str(getattr(case, what)) for run in runs for case in run.cases)
    if more:
        raise InputError(f"--{what} {text} matches {', '.join((first, *more))}; a plot shows one {what}: give one")
    return first
