"""The command line: parse, call one function, print. The work is done on lower floors.

Each file of `cudalab.cli.commands` is one command, found by its file name; its click command is named `command`.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import click

from cudalab.base.bounded import guarded
from cudalab.base.errors import CudalabError, unknown
from cudalab.base.text import visible
from cudalab.cli import commands, streams, terminal

BEGIN = "Error: "  # what click prints before a message
COMPLETE = "_CUDALAB_COMPLETE"  # set by the shell when it asks for completions


class Failure(click.ClickException):
    """An error that the user can correct: one message, no traceback."""

    exit_code = 2


class Help(click.HelpFormatter):
    """Help whose column of options leaves room for the longest example, which click would cut in two."""

    def write_dl(self, rows: Any, col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl(rows, max(12, min(col_max, self.width - 48)), col_spacing)


class Context(click.Context):
    formatter_class = Help


class Commands(click.Group):
    """Load commands from the files of `cudalab.cli.commands`; turn cudalab's errors into a message and exit code 2."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(m.name for m in pkgutil.iter_modules(commands.__path__))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"{commands.__name__}.{cmd_name}")
        command = cast("click.Command", module.command)
        command.context_class = Context
        command.short_help = command.get_short_help_str(limit=sys.maxsize)  # click cuts what is no short_help
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command as click does; for an unknown name suggest the closest command."""
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise Failure(str(unknown("command", args[0], known)))
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **options: Any) -> Any:
        if COMPLETE in os.environ:
            from click.shell_completion import add_completion_class

            from cudalab.cli.complete import Bash

            add_completion_class(Bash)
        streams.open_closed()  # the run continues, since it may write a file
        if terminal.is_program():
            streams.as_program(lambda: self._run(*args, **options))
        return self._run(*args, **options)

    def _run(self, *args: Any, **options: Any) -> Any:
        try:
            return super().main(*args, **options)
        except OSError as error:  # raised while click prints help; `invoke` handles all others
            _failure(error).show()
            sys.exit(Failure.exit_code)

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        with _shown_safely():
            return super().make_context(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        ctx.color = terminal.colored(sys.stdout)  # click.echo follows it from here on
        with _shown_safely(), terminal.plain_warnings():
            try:
                with guarded():
                    return super().invoke(ctx)
            except CudalabError as error:
                raise _failure(error) from None
            except BrokenPipeError:
                raise  # click handles a reader that closed the pipe
            except KeyboardInterrupt:  # click would exit with 1, which means a wrong answer or a slower variant
                terminal.stopped("stopped")
            except OSError as error:
                raise _failure(error) from None


@contextmanager
def _shown_safely() -> Iterator[None]:
    """Make an error's message fit for a terminal: nothing in it that a terminal obeys, and lines cut between words.

    click repeats a wrong argument as it is, and breaks no line. A missing argument gets an example of what to type.
    """
    try:
        yield
    except click.ClickException as error:
        text = visible(error.format_message(), keep="\n")
        if isinstance(error, click.MissingParameter) and (example := _example(error.ctx)):
            text = f"{text.removesuffix('.')}; for example: {example}"
        said = terminal.wrapped(BEGIN + text, 0, sys.stderr)
        error.format_message = lambda: said.removeprefix(BEGIN)  # type: ignore[method-assign]
        raise


def _example(context: click.Context | None) -> str:
    """Return the first example in a command's help, or ""."""
    lines = ((context.command.help or "") if context else "").splitlines()
    return next((line.strip() for line in lines if line.strip().startswith("cudalab ")), "")


def _failure(error: CudalabError | OSError) -> Failure:
    """The message of an error. A current folder that is gone is the cause of many others."""
    said = str(error)
    if isinstance(error, OSError):
        said = f"{error.filename or type(error).__name__}: {error.strerror or error}"
    try:
        os.getcwd()
    except OSError:
        said += "; the current folder does not exist any more: cd to another one"
    return Failure(said)


@click.group(cls=Commands, context_settings={"auto_envvar_prefix": "CUDALAB", "help_option_names": ["-h", "--help"]})
@click.version_option(package_name="cudalab")
def main() -> None:
    """The lab bench for CUDA kernels written from Python.

    Checks whether a kernel is right, measures how fast it is and how far from the limit of the machine, and
    compares it with PyTorch, TorchScript, torch.compile, CuPy and Triton.

    \b
    cudalab new mine.cu        # a spec for your own kernel, to fill in
    cudalab check mine.py      # is it right?
    cudalab bench mine.py      # how fast is it?
    cudalab bench gelu         # one of the lab's kernels
    cudalab doctor             # what works on this machine
    """
