from __future__ import annotations

import sys
from typing import Any

import click

from cudalab.cli import complete
from cudalab.cli.compared import Share
from cudalab.cli.live import shown
from cudalab.cli.options import device, not_empty, quiet
from cudalab.cli.terminal import said
from cudalab.cli.work import exit_code


@click.command("crossover")
@click.argument("first", shell_complete=complete.variants)
@click.argument("second", shell_complete=complete.variants)
@click.option("--kernel", default="", metavar="KERNEL", shell_complete=complete.kernels,
              help="Where the variants fit several: name, or path of a spec.")  # fmt: skip
@click.option("--from", "lowest", default="2^10", show_default=True, metavar="SIZE", help="As in `bench --sizes`.")
@click.option("--to", "highest", default="2^24", show_default=True, metavar="SIZE",
              help="May differ from --from in one dimension.")  # fmt: skip
@click.option("--dtype", default="", metavar="NAME", shell_complete=complete.dtypes,
              help="Default: the kernel's first.")  # fmt: skip
@click.option("--kind", default="", metavar="NAME",
              help="Of cold, hot, graph, graph_cold, call, wall. Default: cold, on a CPU wall.")  # fmt: skip
@click.option("--resolution", default="5%", show_default=True, metavar="SHARE", type=Share(),
              help="Width of the interval at which the search ends.")  # fmt: skip
@device
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of the random inputs.")
@click.option("--budget", default=1.0, show_default=True, metavar="SECONDS", help="Of sampling, at each size.")
@click.option("--timeout", default=120.0, show_default=True, metavar="SECONDS", help="Of silence, for a variant.")
@click.option("-o", "--output", default="", metavar="FILE", callback=not_empty,
              shell_complete=complete.files, help="Also write all that was measured, as JSON.")  # fmt: skip
@quiet
def command(quiet: bool, output: str, **options: Any) -> None:
    """From which size on is one variant faster than another?

    FIRST and SECOND are timed at both ends. If the other one is faster there, the size in between is found by
    bisection; the answer is an interval, up to which one is surely faster and from which the other is. Sizes that were
    not tried are not known: a variant that is faster only in the middle is seen by a sweep (`bench --sizes`) alone.

    \b
    cudalab crossover pycuda:gelu_vec torch_native --dtype float16 --kind cold
    cudalab crossover numpy torch_native --kernel gelu --to 2^20 -o results.json
    cudalab crossover torch_eager pycuda:add2d_vec --from 16x1024 --to 65536x1024

    Exit code: 0 found, or said why there is none; 1 a wrong answer, 2 bad input or a variant that does not run.
    """
    from cudalab.report import crossover as report
    from cudalab.results.file import writable
    from cudalab.tools.crossover import bisect

    if output:
        writable(output)
    try:
        with shown(quiet) as progress:
            found = bisect.crossover(**options, progress=progress, output=output)
    except KeyboardInterrupt as stop:
        click.echo(str(stop) or "stopped", err=True)
        sys.exit(130)
    said(lambda width, color: report.render(found, width, color))
    if found.wrong:
        sys.exit(exit_code(found.run))
