from __future__ import annotations

import sys

import click

from cudalab.base.errors import SpecError
from cudalab.base.text import visible
from cudalab.cli import terminal
from cudalab.cli.options import kernels as kernels_

INDENT = 13  # columns before the text: a field's name


@click.command("list")
@kernels_("all of the lab")
def command(kernels: tuple[str, ...]) -> None:
    """List kernels, their sizes, and the backends.

    For each kernel: its entries (the __global__ functions), the dtypes and named sizes that `bench` and `check` accept,
    and the launch parameters that `tune` may change. A KERNEL is a name, the path of your own spec, or a folder of
    specs.

    \b
    cudalab list
    cudalab list 'gelu*' ./mine/

    Exit code: 0, or 2 for an unknown kernel or a spec that cannot be used; the others are listed.
    """
    from cudalab import backends
    from cudalab.engine import plan

    bad: list[SpecError] = []
    for name, kernel in plan.named(kernels, bad.append).items():
        sizes = ", ".join(f"{size} {'x'.join(map(str, shape))}" for size, shape in kernel.sizes.items())
        click.echo(terminal.wrapped(visible(f"{name}: {kernel.summary}"), 4))
        facts = [("entries", ", ".join(kernel.entries)), ("dtypes", ", ".join(kernel.dtypes)), ("sizes", sizes)]
        facts += [("tunable", f"{macro}: {', '.join(map(str, values))}") for macro, values in kernel.tunables.items()]
        for what, text in facts:
            click.echo(terminal.wrapped(visible(f"    {what:9}{text}"), INDENT))
    click.echo(terminal.wrapped(f"backends: {', '.join(backends.by_name())}", 10))
    for error in bad:
        click.echo(visible(f"Error: {error}", keep="\n"), err=True)
    sys.exit(2 if bad else 0)
