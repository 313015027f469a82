from __future__ import annotations

from typing import Any

import click

from cudalab.base.errors import InputError
from cudalab.cli import complete, terminal
from cudalab.cli import options as options_
from cudalab.cli.live import progress_shown
from cudalab.cli.options import Share


@click.command("tune")
@options_.kernels()
@options_.size("the two largest of the spec", dest="sizes")
@options_.dtype("the spec's first", dest="dtypes")
@click.option(
    "--entry", default="", metavar="NAME", help="The __global__ function to tune. Default: the last of the spec."
)
@click.option("--strategy", default="brute_force", show_default=True, metavar="NAME",
              shell_complete=complete.strategies,
              help="Search strategy of Kernel Tuner, such as random_sample.")  # fmt: skip
@click.option("--most", default=0, metavar="N", type=click.IntRange(0),
              help="Number of configurations to try. Default: the strategy decides.")  # fmt: skip
@click.option("--finalists", default=3, show_default=True, metavar="N", type=click.IntRange(1),
              help="Number of Kernel Tuner's fastest configurations to time beside the default.")  # fmt: skip
@click.option(
    "--kind", default="cold", show_default=True, metavar="NAME", help="Times to compare: cold, hot, graph, graph_cold."
)
@click.option("--min-effect", default="2%", show_default=True, metavar="SHARE", type=Share(),
              help="Smallest gain that replaces the default.")  # fmt: skip
@options_.device
@click.option("--seed", default=0, show_default=True, metavar="N", type=click.IntRange(0),
              help="Seed of the inputs and the strategy.")  # fmt: skip
@click.option("--budget", default=1.0, show_default=True, metavar="SECONDS", help="Time to sample each finalist.")
@options_.processes
@options_.gpus
@options_.ray
@options_.timeout
@click.option("--dry-run", is_flag=True, help="Print what would be tried and exit. Needs no GPU.")
@options_.output("the winner", default="a file beside the .cu")
@options_.quiet
def command(quiet: bool, dry_run: bool, kernels: tuple[str, ...], gpus: str, ray: str, **options: Any) -> None:
    """Find the fastest launch parameters for this GPU.

    Kernel Tuner tries combinations of the tunables that the spec of each KERNEL declares, such as block size and
    elements per thread. It drops those with wrong results, and the lab times the fastest. A winner that is faster than
    the default beyond --min-effect is saved in a file beside the .cu; later runs read that file. docs/tuning.md
    describes all steps.

    \b
    cudalab tune gelu
    cudalab tune gelu --size large,xlarge --dtype all
    cudalab tune ./softmax.py --strategy random_sample --most 50 --dry-run

    With --gpus, several GPUs share the search and the checks; at each size one GPU times all finalists.

    Exit code: 0, whether or not something is faster; 2 bad input, no GPU, or a default that is wrong.
    """
    from cudalab.report import tuning as report
    from cudalab.spec import find
    from cudalab.tools.gpus import asked
    from cudalab.tools.tune import tune

    options |= asked(gpus, ray) if gpus or ray else {}
    chosen = find.chosen(kernels)
    if len(chosen) > 1 and options["output"]:
        raise InputError(
            f"-o writes the parameters of one kernel, but {len(chosen)} were given; name one, or leave out -o"
        )
    kept = [kernel for kernel in chosen if kernel.tunables] if len(chosen) > 1 else chosen
    if not kept:
        raise InputError(f"none of {', '.join(kernel.name for kernel in chosen)} declares tunables")
    for kernel in chosen if len(kept) < len(chosen) else ():
        if not kernel.tunables:
            terminal.say(f"left out: {kernel.name}, which declares no tunables in {kernel.file}")
    tunable = find.words(kept)
    where = {name: options[name] for name in ("sizes", "dtypes", "entry", "strategy", "most")}
    works = [tune.planned(name, **where) for name in tunable]  # raises before anything is measured
    if dry_run:
        return click.echo(terminal.wrapped("\n".join(line for work in works for line in report.described(work)), 4))
    if gpus and not ray:  # of this host
        tune.need_gpu(tunable[0], options["device"])
    for name in tunable:
        try:
            with progress_shown(quiet) as progress:
                found = tune.tune(name, **options, progress=progress)
        except KeyboardInterrupt as stop:
            terminal.stopped(str(stop) or "stopped")
        terminal.write(lambda width, color, found=found: report.render(found, width, color))  # type: ignore[misc]
        for path in dict.fromkeys(one.kept for one in found if one.kept):
            terminal.wrote(path)
    return None
