"""The command line: parse, call one function, print. No logic lives here.

A command is one file of `cudalab.cli.commands`, which is found by its name and has the click command as `command`.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any, cast

import click

from cudalab.cli import commands
from cudalab.errors import CudalabError
from cudalab.text import visible


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

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except CudalabError as error:
            raise Failure(visible(str(error), keep="\n")) from None
        except BrokenPipeError:
            raise  # click's affair: the reader has gone
        except OSError as error:
            raise Failure(f"{error.filename or 'standard output'}: {error.strerror}") from None


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
