from __future__ import annotations

import sys
from typing import Any

import click

from cudalab.cli import complete, terminal
from cudalab.cli.options import device, not_empty, only, skip


@click.command("profile")
@click.argument("kernel", shell_complete=complete.kernels)
@click.option("--size", default="", metavar="SIZE", shell_complete=complete.sizes,
              help="A size as in `bench --sizes`. Default: the first of the spec.")  # fmt: skip
@click.option("--dtype", default="", metavar="NAME", help="Dtype to profile. Default: the first of the kernel.",
              shell_complete=complete.dtypes)  # fmt: skip
@only
@skip
@device
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of the random inputs.")
@click.option("--runs", default=10, show_default=True, type=click.IntRange(1), help="Number of profiled calls.")
@click.option("--counters/--no-counters", default=True, show_default=True,
              help="Also read hardware counters with NVIDIA's ncu if it is installed.")  # fmt: skip
@click.option("--timeout", default=300.0, show_default=True, metavar="SECONDS",
              help="Limit for all variants together; it starts again after a variant that hangs.")  # fmt: skip
@click.option("--format", default="table", show_default=True, type=click.Choice(("table", "json")),
              help="Format of the output.")  # fmt: skip
@click.option("-o", "--output", default="", metavar="FILE", callback=not_empty, shell_complete=complete.files,
              help="Also write a Chrome trace of one call per variant, for ui.perfetto.dev.")  # fmt: skip
def command(format: str, **options: Any) -> None:
    """Show what one call of each variant runs on the machine.

    Counts the kernels and launches of every variant of KERNEL with PyTorch's profiler and shows the kernels that take
    longest; with ncu also how close each comes to the limits of the card. On a CPU, where there are no kernels, it
    counts the operators of PyTorch's variants.

    \b
    cudalab profile gelu
    cudalab profile gelu --only 'torch_*,pycuda' --size large -o trace.json
    cudalab profile ./softmax.py --format json

    Exit code: 0, or 2 for bad input or a variant that fails.
    """
    from cudalab.report import profiling as report
    from cudalab.tools.profile import found, kernel

    profile = kernel.profile(options.pop("kernel"), **options)
    if format == "json":
        click.echo(report.as_json(profile).encode())
    else:
        terminal.write(lambda width, color: report.render(profile, width, color))
    sys.exit(2 if any(row.status == found.ERROR for row in profile.rows) else 0)
