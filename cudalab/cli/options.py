"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from click.core import ParameterSource

from cudalab.base.errors import InputError
from cudalab.cli import complete

FORMATS = ("table", "markdown", "csv", "json")


def together(*options: Callable[..., Any]) -> Callable[..., Any]:
    """One decorator that does what all of `options` do, in their order."""

    def apply(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return apply


def not_empty(context: click.Context, option: click.Parameter, value: Any) -> Any:
    """Refuse a name that was given and is empty, as an unset variable's is: nothing would be kept, or compared."""
    given = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
    if given and value == "":
        raise InputError(f"{option.opts[-1]} is empty; give the name of a file")
    return value


quiet = click.option(
    "-q", "--quiet", is_flag=True, envvar="CUDALAB_QUIET", help="No progress on standard error; errors remain."
)

device = click.option("--device", default="auto", show_default=True, metavar="auto|cuda[:N]|cpu",
                      shell_complete=complete.devices)  # fmt: skip

# Which work: of the commands that measure.
choosing = together(
    click.argument("kernels", nargs=-1, metavar="[KERNEL]...", shell_complete=complete.kernels),
    click.option("--dtypes", default="", metavar="LIST", help="Such as float32,bfloat16, or all.",
                 shell_complete=complete.dtypes),
    click.option("--only", default="", metavar="GLOBS", help="Backends or backend:entry, such as 'torch_*,pycuda'.",
                 shell_complete=complete.variants),
    click.option("--skip", default="", metavar="GLOBS", help="The same, to leave out.",
                 shell_complete=complete.variants),
    device,
    click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of the random inputs."),
    click.option("--format", default="table", show_default=True, type=click.Choice(FORMATS)),
    click.option("-o", "--output", metavar="FILE", help="Also write the results, with every sample, as JSON.",
                 shell_complete=complete.files, callback=not_empty),
    click.option("--resume", default="", metavar="FILE", help="Finish the interrupted run in FILE, with its options.",
                 shell_complete=complete.files, callback=not_empty),
    click.option("--timeout", default=120.0, show_default=True, metavar="SECONDS", help="Of silence, for a variant."),
    quiet,
)  # fmt: skip
