from __future__ import annotations

import sys
from typing import Any

import click

from cudalab.cli import complete, terminal
from cudalab.cli.live import progress_shown
from cudalab.cli.measure import UNSAVED, failure, keep, unsaved
from cudalab.cli.options import RESULTS, Share, budget, device, dtype, kernel, processes, quiet, seed, timeout
from cudalab.cli.options import output as output_option


@click.command("crossover")
@click.argument("first", shell_complete=complete.variants)
@click.argument("second", shell_complete=complete.variants)
@kernel("the one that has both variants")
@click.option(
    "--from", "lowest", default="2^10", show_default=True, metavar="SIZE", help="Smallest size, as in `bench --size`."
)
@click.option("--to", "highest", default="2^24", show_default=True, metavar="SIZE",
              help="Largest size; it differs from --from in one dimension only.")  # fmt: skip
@dtype("the spec's first; one is timed")
@click.option("--kind", default="", metavar="NAME", help="Times to compare: cold, hot, graph, graph_cold, "
              "call, wall. Default: cold; on a CPU wall.")  # fmt: skip
@click.option("--resolution", default="5%", show_default=True, metavar="SHARE", type=Share(),
              help="Stop when the interval is this narrow.")  # fmt: skip
@device
@seed
@budget
@processes
@timeout
@output_option(RESULTS)
@quiet
def command(quiet: bool, output: str, **options: Any) -> None:
    """Find the size from which one variant is faster than another.

    FIRST and SECOND are timed at both ends of the range. If each is faster at one end, bisection narrows the range to
    an interval: below it one variant is faster, above it the other. Sizes in between are not measured: to find a
    variant that is faster only in the middle, time all sizes (`bench --size`).

    \b
    cudalab crossover pycuda:gelu_vec torch_native --dtype float16 --kind cold
    cudalab crossover numpy torch_native --kernel gelu --to 2^20 -o results.json
    cudalab crossover torch_eager pycuda:add2d_vec --from 16x1024 --to 65536x1024

    Exit code: 0 found, or there is none and the output says why; 1 a wrong answer; 2 bad input or a variant that does
    not run.
    """
    from cudalab.report import crossover as report
    from cudalab.results.file import writable
    from cudalab.tools.crossover import bisect

    if output:
        writable(output)
    try:
        with progress_shown(quiet) as progress:
            found = bisect.crossover(**options, progress=progress, output=output)
    except KeyboardInterrupt as stop:
        terminal.stopped(str(stop) or "stopped")
    saved = bool(output) and keep(found.run, output)
    terminal.write(lambda width, color: report.render(found, width, color))
    if saved:
        terminal.wrote(output)
    if found.wrong or unsaved():
        sys.exit(UNSAVED if unsaved() else failure(found.wrong))
