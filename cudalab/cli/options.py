"""Options that several commands share. Each is defined here once; a command says only its default.

VOCABULARY has those that mean the same in every command. Their lists may be given by commas or by repeating the option.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from cudalab.base.errors import InputError
from cudalab.base.globs import names_of, split
from cudalab.cli import complete

FORMATS = ("table", "markdown", "csv", "json")
F = TypeVar("F", bound=Callable[..., Any])
Decorator = Callable[[F], F]

# What each option of the vocabulary is in every command, and how its help begins; "Default: ..." follows.
VOCABULARY = {
    "--kernel": "Kernels: names, globs such as 'gelu*', paths of specs, or folders.",
    "--size": "Sizes: names of the spec, globs of them, all, or 64K, 1M, 2^20, 4096x4096, 2^[10:24:2]; "
    "64x1000,k=8 with a length.",
    "--dtype": "Dtypes: names such as float32,bfloat16, globs such as 'float*', or all.",
    "--only": "Use only these variants: backends, entries or backend:entry, such as 'torch_*,pycuda:gelu_vec'.",
    "--skip": "Leave out these variants, written as in --only.",
    "--device": "Where to run; auto takes the GPU if there is one.",
    "--output": "Write to this file:",
}

# What they are where variants are a study's: it has no spec, no backends and no entries.
OF_STUDY = {
    "--size": "Sizes: names of the study, shown by `study list NAME`, or all.",
    "--only": "Use only these variants of the study: names or globs, such as 'torch_*'.",
}


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


def not_blank(context: click.Context, option: click.Parameter, value: Any) -> Any:
    """Refuse an empty value on the command line, which comes from an unset shell variable."""
    if context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE and value == "":
        raise InputError(f"{option.opts[-1]} is empty; give a value, or leave it out")
    return value


def place(context: click.Context, option: click.Parameter, value: Any) -> Any:
    """Refuse what is no name of a file: nothing, and -, which other programs take for standard output."""
    if value == "-":
        raise InputError("-o - names no file, and results are not written to standard output; give the name of a file, "
                         "such as -o results.json, or ./- for one that is called so")  # fmt: skip
    return not_empty(context, option, value)


def patience(context: click.Context, option: click.Parameter, value: float) -> float:
    """Give specs, too, this many seconds to load."""
    from cudalab.base import bounded

    bounded.allow(value)
    context.call_on_close(lambda: bounded.allow(None))
    return value


def device_name(context: click.Context, option: click.Parameter, value: str) -> str:
    """Refuse a word that names no device before a command does anything."""
    if value != "auto":
        from cudalab.device.open import check_name

        check_name(value)
    return value


class Needed(click.Option):
    """An option that must be given: the error has an example of what to type."""

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        try:
            return super().process_value(ctx, value)
        except click.MissingParameter:
            raise click.UsageError(
                "Missing option -o; give the name of the file, such as -o report.html", ctx
            ) from None


class Spelled(click.Option):
    """An option whose environment variable is named as it is typed, where its parameter has another name."""

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        for opt in self.opts if ctx.auto_envvar_prefix else ():
            if found := os.environ.get(f"{ctx.auto_envvar_prefix}_{opt.strip('-').upper()}"):
                return found
        return super().resolve_envvar_value(ctx)


class Share(click.ParamType):
    """A share of 1, such as 2% or 0.02."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from cudalab.results.compare import share

        try:
            return value if isinstance(value, float) else share(value, param.opts[0] if param else "the share")
        except InputError as error:
            self.fail(str(error), param, ctx)


class Words(click.types.StringParamType):
    """A comma-separated list; in the environment too, where click would split it at blanks."""

    envvar_list_splitter = ","


quiet = click.option(
    "-q", "--quiet", is_flag=True, envvar="CUDALAB_QUIET",
    help="Print only errors on standard error: no progress, no names of written files.",
)  # fmt: skip


def _listed(name: str, completion: Callable[..., Any], metavar: str = "LIST", plural: bool = True) -> Any:
    """An option of the vocabulary whose value is a comma-separated list, as a function of its default.

    `default` is what the help says, `value` the default's text, `dest` the parameter's name; `words` begin the help.
    """

    def option(default: str, value: str = "", dest: str = name, words: dict[str, str] = VOCABULARY) -> Decorator[Any]:
        names = (f"--{name}", *([f"--{name}s"] if plural else []), dest)
        return click.option(
            *names, type=Words(), multiple=True, default=(value,), callback=_joined, metavar=metavar,
            shell_complete=completion,
            help=f"{words[f'--{name}']} Default: {default}.",
        )  # fmt: skip

    return option


def _joined(context: click.Context, option: click.Parameter, value: tuple[str, ...]) -> str:
    if context.get_parameter_source(option.name or "") is ParameterSource.DEFAULT:
        for spelling in (opt.strip("-").upper() for opt in option.opts):  # click knows the parameter's name alone
            found = os.environ.get(f"{context.auto_envvar_prefix}_{spelling}")
            if context.auto_envvar_prefix and found is not None:
                context.set_parameter_source(option.name or "", ParameterSource.ENVIRONMENT)
                return found
    return ",".join(value)


kernel = _listed("kernel", complete.kernels)
size = _listed("size", complete.sizes)
dtype = _listed("dtype", complete.dtypes)
only_of = functools.partial(_listed("only", complete.variants, "GLOBS", plural=False), "all variants")
only = only_of()
only_own = _listed("only", complete.variants, "GLOBS", plural=False)("the kernel's own entries; all, if there are none")
skip = _listed("skip", complete.variants, "GLOBS", plural=False)("none")
device = click.option("--device", default="auto", metavar="auto|cuda[:N]|cpu", shell_complete=complete.devices,
                      callback=device_name, help=f"{VOCABULARY['--device']} Default: auto.")  # fmt: skip


def output(
    what: str, default: str = "none is written", required: bool = False, checked: Callable[..., Any] = place
) -> Decorator[Any]:
    """-o FILE: `what` is written there. `checked` refuses what is no name."""
    end = "" if required else f" Default: {default}."
    kind: dict[str, Any] = {"required": True} if required else {"default": ""}  # click takes default=None for a value
    kind |= {"cls": Needed} if required else {}
    return click.option("-o", "--output", **kind, metavar="FILE", callback=checked, shell_complete=complete.files,
                        help=f"{VOCABULARY['--output']} {what}.{end}")  # fmt: skip


def kernels(default: str = "") -> Decorator[Any]:
    """KERNEL... and --kernel, which mean the same; the command gets both as `kernels`. No `default`: one is needed."""

    def apply(command: Callable[..., Any]) -> Any:
        @functools.wraps(command)
        def merged(*args: Any, kernels: tuple[str, ...], kernel: str, **options: Any) -> Any:
            named = (*(name for words in kernels for name in names_of(words)), *split(kernel))
            if not named and not default:
                raise click.UsageError("Missing argument 'KERNEL...': give a kernel, such as gelu or ./softmax.py")
            return command(*args, kernels=named, **options)

        metavar = "[KERNEL]..." if default else "KERNEL..."
        argument = click.argument("kernels", nargs=-1, metavar=metavar, shell_complete=complete.kernels)
        return together(argument, kernel(default or "those named as KERNEL"))(merged)

    return apply


rivals = click.option("--rival", "rivals", cls=Spelled, multiple=True, metavar="NAME=MODULE:FUNCTION",
                      help="Also measure a function of torch tensors, from a module or a file, as rival:NAME; add :out "
                      "if it writes into its last argument, :cupy or :numpy for other arrays. May be repeated. "
                      "Default: none.",
                      callback=lambda context, option, value: ",".join(value))  # fmt: skip
seed = click.option("--seed", type=click.IntRange(0), metavar="N",
                    help="Seed of the random inputs. Default: a new one in each run.")  # fmt: skip
parameters = click.option("--set", "parameters", cls=Spelled, multiple=True, type=Words(), metavar="NAME=VALUE",
                          shell_complete=complete.tunables, callback=lambda context, option, value: ",".join(value),
                          help="Value of a tunable, such as BLOCK_THREADS=128; may be repeated. Others keep their "
                          "default. Default: the values that `tune` saved for this GPU.")  # fmt: skip
budget = click.option("--budget", default=1.0, show_default=True, metavar="SECONDS",
                      help="Time to sample each variant.")  # fmt: skip
processes = click.option("--processes", default=0, metavar="N", type=click.IntRange(0, 16),
                         help="Number of fresh processes that measure in turn; intervals then include what differs "
                         "between them. 0 means the default. Default: 3 to 8 on a GPU, until ratios are known to "
                         "0.7 %; 1 on the CPU.")  # fmt: skip
gpus = click.option("--gpus", default="", metavar="LIST", callback=not_blank,
                    help="Use several GPUs: all, numbers such as 0,1, or those of a card or a host, such as H200. "
                    "Without a GPU, numbers are actors on the CPU. Default: one GPU, as none.")  # fmt: skip
ray = click.option("--ray", default="", metavar="ADDRESS", callback=not_blank,
                   help="Use the GPUs of a Ray cluster: HOST:6379, or auto on one of its hosts. Default: those of this "
                   "host.")  # fmt: skip
quick = click.option("--quick", is_flag=True,
                     help="One process and a budget of at most 0.2 s: wider intervals, fewer verdicts.")  # fmt: skip
timeout = click.option("--timeout", default=120.0, show_default=True, metavar="SECONDS", callback=patience,
                       help="Stop a variant, or the loading of a spec, after this long without progress.")  # fmt: skip
seconds = click.option("--seconds", type=float, metavar="SECONDS",
                       help="End the run after this long: what is finished is kept, and --resume measures the "
                       "rest. Default: no limit.")  # fmt: skip
resume = click.option("--resume", default="", metavar="FILE", callback=not_empty, shell_complete=complete.files,
                      help="Finish the interrupted run in FILE, with its options. Default: a new run.")  # fmt: skip
format = click.option("--format", default="table", show_default=True, type=click.Choice(FORMATS),
                      help="Format of the printed results.")  # fmt: skip
everything = click.option(
    "--all", "everything", is_flag=True, cls=Spelled,
    help="Without a GPU, print all CPU times as tables, in place of the short screen.",
)  # fmt: skip
table_or_json = click.option("--format", default="table", show_default=True, type=click.Choice(("table", "json")),
                             help="Format of the output.")  # fmt: skip
store = click.option("--store", default="cudalab-history.db", show_default=True, metavar="FILE", envvar="CUDALAB_STORE",
                     callback=not_empty, shell_complete=complete.files, help="File of the history.")  # fmt: skip
min_effect = click.option("--min-effect", default="2%", show_default=True, metavar="SHARE", type=Share(),
                          help="Smallest difference that a comparison counts.")  # fmt: skip

RESULTS = "the results, with every sample, as JSON"

# Which rows of results files a command reads.
selecting = together(
    kernel("all in the file", dest="kernels"), size("all in the file", dest="sizes"),
    dtype("all in the file", dest="dtypes"), only, skip,
)  # fmt: skip


def measuring(sizes: str, dtypes: str, named: str = "", every: str = "") -> Decorator[Any]:
    """The options of the commands that measure kernels, with the defaults of their sizes and dtypes."""
    return together(
        kernels("all of the lab"), size(sizes, named, "sizes"), dtype(dtypes, every, "dtypes"), only, skip, rivals,
        device, seed, format, output(RESULTS), resume, timeout, seconds, quiet,
    )  # fmt: skip
