"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from click.core import ParameterSource

from cudalab.base.errors import InputError
from cudalab.cli import complete

FORMATS = ("table", "markdown", "csv", "json")


def together(*options: Callable[..., Any]) -> Callable[..., Any]:
    """Combine decorators into one; the options keep their order in the help."""

    def apply(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return apply


def not_empty(context: click.Context, option: click.Parameter, value: Any) -> Any:
    """Refuse an empty file name on the command line, which comes from an unset shell variable."""
    given = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
    if given and value == "":
        raise InputError(f"{option.opts[-1]} is empty; give the name of a file")
    return value


class Share(click.ParamType):
    """A share of 1, such as 2% or 0.02."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from cudalab.results.compare import share

        try:
            return value if isinstance(value, float) else share(value, param.opts[0] if param else "the share")
        except InputError as error:
            self.fail(str(error), param, ctx)


quiet = click.option(
    "-q", "--quiet", is_flag=True, envvar="CUDALAB_QUIET", help="Show no progress on standard error, only errors."
)

device = click.option("--device", default="auto", show_default=True, metavar="auto|cuda[:N]|cpu",
                      shell_complete=complete.devices,
                      help="Where to run; auto takes the GPU if there is one.")  # fmt: skip

only = click.option("--only", default="", metavar="GLOBS", shell_complete=complete.variants,
                    help="Use only these variants: backends or backend:entry, such as 'torch_*,pycuda'.")  # fmt: skip
skip = click.option("--skip", default="", metavar="GLOBS", shell_complete=complete.variants,
                    help="Leave out these variants, written as in --only.")  # fmt: skip
rivals = click.option("--rival", "rivals", multiple=True, metavar="NAME=MODULE:FUNCTION",
                      help="Also measure a function of torch tensors, from a module or a file, as rival:NAME; add :out "
                      "if it writes into its last argument, :cupy or :numpy for other arrays. May be repeated.",
                      callback=lambda context, option, value: ",".join(value))  # fmt: skip
seed = click.option("--seed", type=click.IntRange(0),
                    help="Seed of the random inputs. Default: a new one in each run.")  # fmt: skip
dtypes = click.option("--dtypes", default="", metavar="LIST", shell_complete=complete.dtypes,
                      help="Dtypes, such as float32,bfloat16, or all.")  # fmt: skip
budget = click.option("--budget", default=1.0, show_default=True, metavar="SECONDS",
                      help="Time to sample each variant.")  # fmt: skip
processes = click.option("--processes", default=0, show_default="3 on a GPU, 1 on the CPU", metavar="N",
                         type=click.IntRange(0, 16),
                         help="Fresh processes that measure in turn, so that intervals cover what differs between "
                         "them. 0: the default.")  # fmt: skip
quick = click.option("--quick", is_flag=True,
                     help="One process and a budget of at most 0.2 s: wider intervals, fewer verdicts.")  # fmt: skip
timeout = click.option("--timeout", default=120.0, show_default=True, metavar="SECONDS",
                       help="Stop a variant that shows no progress for this long.")  # fmt: skip
output = click.option("-o", "--output", metavar="FILE", callback=not_empty, shell_complete=complete.files,
                      help="Also write the results, with every sample, as JSON.")  # fmt: skip
resume = click.option("--resume", default="", metavar="FILE", callback=not_empty, shell_complete=complete.files,
                      help="Finish the interrupted run in FILE, with its options.")  # fmt: skip
format = click.option("--format", default="table", show_default=True, type=click.Choice(FORMATS),
                      help="Format of the printed results.")  # fmt: skip
min_effect = click.option("--min-effect", default="2%", show_default=True, metavar="SHARE", type=Share(),
                          help="Smallest difference that a comparison counts as faster or slower.")  # fmt: skip

# The options of the commands that measure kernels.
measuring = together(
    click.argument("kernels", nargs=-1, metavar="[KERNEL]...", shell_complete=complete.kernels),
    dtypes, only, skip, rivals, device, seed, format, output, resume, timeout, quiet,
)  # fmt: skip
