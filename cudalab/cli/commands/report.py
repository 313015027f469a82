from __future__ import annotations

import click

from cudalab.base.errors import InputError
from cudalab.cli import complete


@click.command("report")
@click.argument("files", nargs=-1, required=True, metavar="RESULTS...", shell_complete=complete.files)
@click.option("-o", "--output", required=True, metavar="FILE", shell_complete=complete.files,
              help="Write a page (.html) or one plot (.svg, .png).")  # fmt: skip
@click.option("--chart", default="", metavar="NAME",
              help="Plot to draw: speedup (default), cold, hot, graph, graph_cold, call, api, wall, samples, "
                   "roofline, bandwidth, accuracy, error.")  # fmt: skip
@click.option("--kernel", default="", metavar="NAME", help="Kernel of the plot, if RESULTS have several.")
@click.option("--dtype", default="", metavar="NAME", help="Dtype of the plot, if RESULTS have several.")
@click.option(
    "--size", default="", metavar="NAME", help="Size of the plot, as the tables name it. Default: the largest."
)
@click.option(
    "--kind", default="", metavar="NAME", help="Times that speedup, samples and bandwidth show, such as hot or graph."
)
@click.option("--scale", type=click.FloatRange(0.1, 20), metavar="X", help="Pixels of a PNG per unit. Default: 3.")
@click.option("--bare", is_flag=True, help="Draw the plot without its title, as for a paper with captions.")
def command(files: tuple[str, ...], output: str, scale: float | None, bare: bool, **which: str) -> None:
    """Draw results as a page to share or as a plot for a paper.

    The page is one file that loads nothing else. It shows findings, bars with intervals, times, samples, a roofline,
    bandwidth over sizes, errors, a table of all numbers to sort and filter, and the machine. Several RESULTS are shown
    together.

    \b
    cudalab report results.json checks.json -o report.html
    cudalab report results.json -o out.svg --chart bandwidth --dtype float16
    cudalab report results.json -o out.png --kernel gelu --size large

    Exit code: 0, or 2 if RESULTS cannot be read or contain nothing to draw, or FILE cannot be written or exists and is
    not a report.
    """
    from cudalab.report import html
    from cudalab.report.html import output as out

    given = [name for name, value in {**which, "scale": scale, "bare": bare}.items() if value]
    target = out.free(output)
    page = target.suffix.lower() == ".html"
    if page and given:
        raise InputError(f"--{given[0]} is for a single plot; give a name in .svg or .png with -o")
    if scale and target.suffix.lower() != ".png":
        raise InputError("--scale is for a PNG; an SVG has no pixels")
    loaded = out.read(files)
    html.need()
    if page:
        html.write_page(target, loaded)
    else:
        chart = which.pop("chart") or "speedup"
        html.write_plot(target, [run for _, run in loaded], chart, scale or 3, not bare, **which)
