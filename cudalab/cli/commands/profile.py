from __future__ import annotations

import sys
from typing import Any

import click

from cudalab.cli import complete
from cudalab.cli.options import device, not_empty
from cudalab.cli.terminal import said


@click.command("profile")
@click.argument("kernel", shell_complete=complete.kernels)
@click.option("--size", default="", metavar="SIZE", help="One of `bench --sizes`. Default: the first of the spec's.",
              shell_complete=complete.sizes)  # fmt: skip
@click.option("--dtype", default="", metavar="NAME", help="Default: the kernel's first.",
              shell_complete=complete.dtypes)  # fmt: skip
@click.option("--only", default="", metavar="GLOBS", help="Backends or backend:entry, such as 'torch_*,pycuda'.",
              shell_complete=complete.variants)  # fmt: skip
@click.option("--skip", default="", metavar="GLOBS", help="The same, to leave out.", shell_complete=complete.variants)
@device
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of the random inputs.")
@click.option("--runs", default=10, show_default=True, type=click.IntRange(1), help="Calls that are counted.")
@click.option("--counters/--no-counters", default=True, show_default=True, help="Also those of NVIDIA's ncu, if there.")
@click.option("--timeout", default=300.0, show_default=True, metavar="SECONDS",
              help="Of all variants together; after one that hangs, anew for the others.")  # fmt: skip
@click.option("--format", default="table", show_default=True, type=click.Choice(("table", "json")))
@click.option("-o", "--output", default="", metavar="FILE", callback=not_empty, shell_complete=complete.files,
              help="A Chrome trace of one call of each variant, for ui.perfetto.dev.")  # fmt: skip
def command(format: str, **options: Any) -> None:
    """What does one call of each variant make the machine do?

    Counts the kernels and launches of every variant of KERNEL by PyTorch's profiler, and says which kernels take the
    longest; with ncu also how near to the card's limits each comes. On a CPU it counts the operators of PyTorch's
    variants: there are no kernels.

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
        said(lambda width, color: report.render(profile, width, color))
    sys.exit(2 if any(row.status == found.ERROR for row in profile.rows) else 0)
