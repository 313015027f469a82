from __future__ import annotations

import sys
from typing import Any

import click

from cudalab.cli import complete, terminal
from cudalab.cli.live import progress_shown
from cudalab.cli.options import Share, device, not_empty, processes, quiet, timeout


@click.command("tune")
@click.argument("kernel", shell_complete=complete.kernels)
@click.option("--sizes", default="", metavar="LIST", shell_complete=complete.sizes,
              help="Sizes as in `bench`. Default: the two largest of the spec.")  # fmt: skip
@click.option("--dtypes", default="", metavar="LIST", shell_complete=complete.dtypes,
              help="Dtypes, such as float32,bfloat16, or all. Default: the first.")  # fmt: skip
@click.option(
    "--entry", default="", metavar="NAME", help="The __global__ function to tune. Default: the last of the spec."
)
@click.option("--strategy", default="brute_force", show_default=True, metavar="NAME",
              help="Search strategy of Kernel Tuner, such as random_sample.")  # fmt: skip
@click.option("--most", default=0, metavar="N", type=click.IntRange(0),
              help="Number of configurations to try. Default: the strategy decides.")  # fmt: skip
@click.option("--finalists", default=3, show_default=True, metavar="N", type=click.IntRange(1),
              help="Number of Kernel Tuner's fastest that the lab times beside the default.")  # fmt: skip
@click.option(
    "--kind", default="cold", show_default=True, metavar="NAME", help="Times to compare: cold, hot, graph, ..."
)
@click.option("--min-effect", default="2%", show_default=True, metavar="SHARE", type=Share(),
              help="Smallest gain that replaces the default.")  # fmt: skip
@device
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0),
              help="Seed of the inputs and the strategy.")  # fmt: skip
@click.option("--budget", default=1.0, show_default=True, metavar="SECONDS", help="Time to sample each finalist.")
@processes
@timeout
@click.option("--dry-run", is_flag=True, help="Print what would be tried and exit. Needs no GPU.")
@click.option("-o", "--output", default="", metavar="FILE", callback=not_empty, shell_complete=complete.files,
              help="Write the winner to FILE instead of a file beside the .cu.")  # fmt: skip
@quiet
def command(quiet: bool, dry_run: bool, **options: Any) -> None:
    """Find the fastest launch parameters for this GPU.

    Kernel Tuner tries combinations of the tunables that the spec of KERNEL declares, such as block size and elements
    per thread. It drops those with wrong results, and the lab times the fastest. A winner that is faster than the
    default beyond --min-effect is saved in a file beside the .cu; later runs read that file. docs/tuning.md describes
    all steps.

    \b
    cudalab tune gelu
    cudalab tune gelu --sizes large,xlarge --dtypes all
    cudalab tune ./softmax.py --strategy random_sample --most 50

    Exit code: 0, whether or not something is faster; 2 bad input, no GPU, or a default that is wrong.
    """
    from cudalab.report import tuning as report
    from cudalab.tools.tune import tune

    if dry_run:
        work = tune.planned(options["kernel"], options["sizes"], options["dtypes"], options["entry"])
        return click.echo("\n".join(report.described(work)))
    try:
        with progress_shown(quiet) as progress:
            found = tune.tune(**options, progress=progress)
    except KeyboardInterrupt as stop:
        click.echo(str(stop) or "stopped", err=True)
        sys.exit(130)
    return terminal.write(lambda width, color: report.render(found, width, color))
