"""The command line: parse, call one function, print. No logic lives here.

A command is one file of `cudalab.cli.commands`, which is found by its name and has the click command as `command`.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from typing import Any, cast

import click

from cudalab.base.errors import CudalabError, unknown
from cudalab.base.text import visible
from cudalab.cli import commands, terminal

COMPLETE = "_CUDALAB_COMPLETE"  # set by a shell that asks what TAB can complete


class Failure(click.ClickException):
    """Bad input, said in one message."""

    exit_code = 2


class Commands(click.Group):
    """The files of `cudalab.cli.commands`. Turns the lab's own errors into one clear message and exit code 2."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(m.name for m in pkgutil.iter_modules(commands.__path__))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"{commands.__name__}.{cmd_name}")
        return cast("click.Command", module.command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, with our own words for a name that is not known."""
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise Failure(visible(str(unknown("command", args[0], known))))
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **options: Any) -> Any:
        if COMPLETE in os.environ:
            from click.shell_completion import add_completion_class

            from cudalab.cli.complete import Bash

            add_completion_class(Bash)
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is None:  # closed, as by `>&-`: what is measured and saved matters all the same
                setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        try:
            return super().main(*args, **options)
        except OSError as error:  # while help is printed; of all else `invoke` speaks
            _failure(error).show()
            sys.exit(Failure.exit_code)

    def invoke(self, ctx: click.Context) -> Any:
        ctx.color = terminal.colored(sys.stdout)  # of everything that is printed from here on
        try:
            return super().invoke(ctx)
        except CudalabError as error:
            raise Failure(visible(str(error), keep="\n")) from None
        except BrokenPipeError:
            raise  # click's affair: the reader has gone
        except KeyboardInterrupt:  # click's exit code would be that of a wrong answer, or of something slower
            click.echo("stopped", err=True)
            sys.exit(130)
        except OSError as error:
            raise _failure(error) from None


def _failure(error: OSError) -> Failure:
    return Failure(f"{error.filename or 'standard output'}: {error.strerror}")


@click.group(cls=Commands, context_settings={"auto_envvar_prefix": "CUDALAB", "help_option_names": ["-h", "--help"]})
@click.version_option(package_name="cudalab")
def main() -> None:
    """The lab bench for CUDA kernels written from Python.

    Is a kernel right, how fast is it, how far from what the machine allows, and does it beat PyTorch,
    TorchScript, torch.compile, CuPy and Triton?

    \b
    cudalab bench gelu --sizes small,large
    cudalab check gelu
    cudalab doctor
    """
