from __future__ import annotations

import sys
from typing import Any

import click

from cudalab.cli import complete
from cudalab.cli.compared import Share
from cudalab.cli.live import shown
from cudalab.cli.options import device, not_empty, quiet
from cudalab.cli.terminal import said


@click.command("tune")
@click.argument("kernel", shell_complete=complete.kernels)
@click.option("--sizes", default="", metavar="LIST", help="As in `bench`. Default: the spec's two largest.",
              shell_complete=complete.sizes)  # fmt: skip
@click.option("--dtypes", default="", metavar="LIST", help="Such as float32,bfloat16, or all. Default: the first.",
              shell_complete=complete.dtypes)  # fmt: skip
@click.option("--entry", default="", metavar="NAME", help="Which __global__ function. Default: the last of the spec.")
@click.option("--strategy", default="brute_force", show_default=True, metavar="NAME",
              help="Kernel Tuner's way to choose, such as random_sample.")  # fmt: skip
@click.option("--most", default=0, metavar="N", type=click.IntRange(0),
              help="Configurations to try, where the strategy chooses.")  # fmt: skip
@click.option("--finalists", default=3, show_default=True, metavar="N", type=click.IntRange(1),
              help="Of Kernel Tuner's fastest, to be timed by the lab beside the default.")  # fmt: skip
@click.option("--kind", default="cold", show_default=True, metavar="NAME", help="Of time: cold, hot, graph, ...")
@click.option("--min-effect", default="2%", show_default=True, metavar="SHARE", type=Share(),
              help="Smallest gain for which the default gives way.")  # fmt: skip
@device
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of inputs and strategy.")
@click.option("--budget", default=1.0, show_default=True, metavar="SECONDS", help="Of sampling, for each finalist.")
@click.option("--timeout", default=120.0, show_default=True, metavar="SECONDS", help="Of silence.")
@click.option("--dry-run", is_flag=True, help="Say what would be tried, and do nothing. Needs no GPU.")
@click.option("-o", "--output", default="", metavar="FILE", callback=not_empty, shell_complete=complete.files,
              help="Keep the winner here, and not beside the .cu.")  # fmt: skip
@quiet
def command(quiet: bool, dry_run: bool, **options: Any) -> None:
    """Find the fastest launch parameters for this GPU.

    Of the tunables that KERNEL's spec declares (block size, elements a thread) Kernel Tuner tries all combinations or
    some. What is wrong is left out, the fastest are timed by the lab, and what is surely faster than the default is
    kept in a file beside the .cu, which is read from then on. docs/tuning.md has the whole story.

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
        with shown(quiet) as progress:
            found = tune.tune(**options, progress=progress)
    except KeyboardInterrupt as stop:
        click.echo(str(stop) or "stopped", err=True)
        sys.exit(130)
    return said(lambda width, color: report.render(found, width, color))
