from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from cudalab.base.errors import SpecError
from cudalab.base.text import visible, visible_json
from cudalab.cli import terminal
from cudalab.cli.options import kernels as kernels_
from cudalab.cli.options import table_or_json

if TYPE_CHECKING:
    from cudalab.spec.kernel import Kernel

INDENT = 13  # columns before the text: a field's name


@click.command("list")
@kernels_("all of the lab")
@table_or_json
def command(kernels: tuple[str, ...], format: str) -> None:
    """List kernels, their sizes, and the backends.

    For each kernel: its entries (the __global__ functions), the dtypes and named sizes that `bench` and `check` accept,
    and the launch parameters that `tune` may change. A KERNEL is a name, the path of your own spec, or a folder of
    specs.

    \b
    cudalab list
    cudalab list 'gelu*' ./mine/
    cudalab list --format json

    Exit code: 0, or 2 for an unknown kernel or a spec that cannot be used; the others are listed.
    """
    from cudalab import backends
    from cudalab.engine import plan

    bad: list[SpecError] = []
    found = plan.kernels_by_name(kernels, bad.append)
    if format == "json":
        listed = {name: _facts(kernel) for name, kernel in found.items()}
        click.echo(visible_json(json.dumps({"kernels": listed, "backends": list(backends.by_name())}, indent=1)))
    else:
        for name, kernel in found.items():
            _print(name, kernel)
        click.echo(terminal.wrapped(f"backends: {', '.join(backends.by_name())}", 10))
    for error in bad:
        click.echo(visible(f"Error: {error}", keep="\n"), err=True)
    sys.exit(2 if bad else 0)


def _print(name: str, kernel: Kernel) -> None:
    sizes = ", ".join(f"{size} {'x'.join(map(str, shape))}" for size, shape in kernel.sizes.items())
    click.echo(terminal.wrapped(visible(f"{name}: {kernel.summary}"), 4))
    facts = [("entries", ", ".join(kernel.entries)), ("dtypes", ", ".join(kernel.dtypes)), ("sizes", sizes)]
    facts += [("tunable", f"{macro}: {', '.join(map(str, values))}") for macro, values in kernel.tunables.items()]
    for what, text in facts:
        click.echo(terminal.wrapped(visible(f"    {what:9}{text}"), INDENT))


def _facts(kernel: Kernel) -> dict[str, Any]:
    """What is printed of a kernel, and its file, as data."""
    return {
        "summary": kernel.summary, "file": kernel.file, "entries": list(kernel.entries), "dtypes": kernel.dtypes,
        "sizes": kernel.sizes, "tunables": kernel.tunables,
    }  # fmt: skip
