from __future__ import annotations

import click

from cudalab.base.errors import InputError
from cudalab.cli import complete


@click.command("report")
@click.argument("files", nargs=-1, required=True, metavar="RESULTS...", shell_complete=complete.files)
@click.option("-o", "--output", required=True, metavar="FILE", shell_complete=complete.files,
              help="A page: .html; one plot: .svg or .png.")  # fmt: skip
@click.option("--chart", default="", metavar="NAME",
              help="Which plot: speedup (default), cold, hot, graph, graph_cold, call, api, wall, samples, "
                   "bandwidth, accuracy, error.")  # fmt: skip
@click.option("--kernel", default="", metavar="NAME", help="Of a plot, where RESULTS have several.")
@click.option("--dtype", default="", metavar="NAME", help="The same.")
@click.option("--size", default="", metavar="NAME", help="Of a plot: a size as the tables name it.  [the largest]")
@click.option("--kind", default="", metavar="NAME", help="Of speedup, samples, bandwidth: of hot, graph, ... times.")
@click.option("--scale", type=click.FloatRange(0.1, 20), metavar="X", help="Pixels of a PNG for each unit.  [3]")
@click.option("--bare", is_flag=True, help="A plot without its title: a paper has captions.")
def command(files: tuple[str, ...], output: str, scale: float | None, bare: bool, **which: str) -> None:
    """Draw results: as a page to share, or as a plot for a paper.

    The page is one file that loads nothing else: answers, bars with intervals, times, samples, bandwidth over sizes,
    errors, all numbers to sort and filter, and what was measured on what. Several RESULTS are shown together.

    \b
    cudalab report results.json checks.json -o report.html
    cudalab report results.json -o out.svg --chart bandwidth --dtype float16
    cudalab report results.json -o out.png --kernel gelu --size large

    Exit code: 0, or 2 if RESULTS cannot be read, have nothing to draw, or FILE cannot be written or would be lost.
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
