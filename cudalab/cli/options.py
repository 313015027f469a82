"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

FORMATS = ("table", "markdown", "csv", "json")


def together(*options: Callable[..., Any]) -> Callable[..., Any]:
    """One decorator that does what all of `options` do, in their order."""

    def apply(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return apply


# Which work: of the commands that measure.
choosing = together(
    click.argument("kernels", nargs=-1, metavar="[KERNEL]..."),
    click.option("--dtypes", default="", metavar="LIST", help="Such as float32,bfloat16, or all."),
    click.option("--only", default="", metavar="GLOBS", help="Backends or backend:entry, such as 'torch_*,pycuda'."),
    click.option("--skip", default="", metavar="GLOBS", help="The same, to leave out."),
    click.option("--device", default="auto", show_default=True, metavar="auto|cuda[:N]|cpu"),
    click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of the random inputs."),
    click.option("--format", default="table", show_default=True, type=click.Choice(FORMATS)),
    click.option("-o", "--output", metavar="FILE", help="Also write the results, with every sample, as JSON."),
    click.option("--resume", default="", metavar="FILE", help="Finish the interrupted run in FILE, with its options."),
    click.option("--timeout", default=120.0, show_default=True, metavar="SECONDS", help="Of silence, for a variant."),
)
