from __future__ import annotations

import os
import sys
from typing import Any

import click

from cudalab.base.errors import InputError
from cudalab.cli import options as options_
from cudalab.cli import terminal


@click.command("profile")
@options_.kernels()
@options_.size("the first of the spec")
@options_.dtype("the spec's first")
@options_.only
@options_.skip
@options_.device
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(0), metavar="N", help="Seed of the random inputs."
)
@click.option(
    "--runs", default=10, show_default=True, type=click.IntRange(1), metavar="N", help="Number of profiled calls."
)
@click.option("--counters/--no-counters", default=True, show_default=True,
              help="Also read hardware counters with NVIDIA's ncu if it is installed.")  # fmt: skip
@click.option("--timeout", default=300.0, show_default=True, metavar="SECONDS",
              help="Time limit for all variants together; if one hangs, the others start again with the "
              "full limit.")  # fmt: skip
@options_.table_or_json
@options_.output("a Chrome trace of one call per variant, for ui.perfetto.dev")
@options_.quiet
def command(
    kernels: tuple[str, ...], size: str, dtype: str, only: str, skip: str, format: str, output: str, quiet: bool,
    **options: Any,
) -> None:  # fmt: skip
    """Show what one call of each variant runs on the machine.

    Counts the kernels and launches of every variant of each KERNEL with PyTorch's profiler and shows the kernels that
    take longest; with ncu also how close each comes to the limits of the card. On a CPU, where there are no kernels, it
    counts the operators of PyTorch's variants.

    \b
    cudalab profile gelu
    cudalab profile gelu --only 'torch_*,pycuda' --size large -o trace.json
    cudalab profile ./softmax.py --format json

    Exit code: 0, or 2 for bad input or a variant that fails.
    """
    from cudalab.engine import plan
    from cudalab.engine.selection import Selection
    from cudalab.report import profiling as report
    from cudalab.tools.profile import found, kernel

    selection = Selection.of(only, skip)
    groups = [
        group
        for _, one, kinds in plan.with_dtypes(kernels, dtype)
        for group in plan.groups((one.file,), size or next(iter(one.sizes)), ",".join(kind.name for kind in kinds))
    ]
    selection.check(groups)
    chosen = [group for group in groups if any(selection.variants(group))]
    if output and len(chosen) > 1:
        raise InputError(f"a trace holds one case, but {len(chosen)} were chosen; choose one, or leave out -o")
    profiles = []
    for group in chosen:
        own = selection.about(group)
        which: dict[str, Any] = {"only": ",".join(own.only), "skip": ",".join(own.skip), "output": output}
        one = kernel.profile(group.file, size=group.size, dtype=group.dtype.name, **which, **options)
        profiles.append(one)
        if format != "json":
            terminal.write(lambda width, color, one=one: report.render(one, width, color))  # type: ignore[misc]
    if format == "json":
        click.echo(report.as_json(profiles).encode())
    if output and os.path.isfile(output):
        terminal.wrote(output)
    sys.exit(2 if any(row.status == found.ERROR for one in profiles for row in one.rows) else 0)
