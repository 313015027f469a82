"""The magics `%cudalab` and `%%cudalab`: a command of the command line, with results as HTML."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING, Any, NoReturn

import click

from cudalab.base import advice
from cudalab.base.errors import CudalabError, InputError, Unavailable, short, unknown
from cudalab.base.text import visible
from cudalab.cli import main
from cudalab.cli.notebook import cell as cells

if TYPE_CHECKING:
    from cudalab.results.record import Results

STOPPED = 130  # the exit code of a command after Ctrl-C


class CellError(CudalabError):
    """An error of a cell, which IPython shows without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"Error: {self}"]


class Output:
    """The output of a cell: a line while the command runs, then its results in the same place."""

    def __init__(self) -> None:
        self.run: Results | None = None
        self._handle: Any = None

    def progress(self, line: str) -> None:
        self._show({"text/plain": line})

    def results(self, run: Results) -> None:
        from cudalab.report.results import Results as Shown

        shown = Shown.of(run)
        html = shown._repr_html_()
        if html is None:
            self._show({"text/plain": f"{shown}\n\nfor tables and charts: {advice.extra('notebook')}"})
        else:
            self._show({"text/plain": str(shown), "text/html": html})
        self.run, self._handle = shown, None

    def _show(self, data: dict[str, str]) -> None:
        from IPython.display import display

        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


class _Words(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(message)


def load(shell: Any) -> None:
    """Add the magics to an IPython shell. Raises Unavailable where there is none."""
    if shell is None or not hasattr(shell, "register_magic_function"):
        raise Unavailable(f"%load_ext cudalab is for IPython and Jupyter; {advice.extra('notebook')}")

    def cudalab(line: str, cell: str | None = None) -> None:
        """Run a command of cudalab; `%%cudalab check` runs it on the kernel in the cell."""
        ran(shell, line, cell)

    shell.register_magic_function(cudalab, "line_cell", "cudalab")


def ran(shell: Any, line: str, cell: str | None) -> None:
    """Run the command of a magic's `line`, on the kernel in `cell` if there is one. Raises CellError."""
    parser = _Words(add_help=False, allow_abbrev=False)
    for option in ("--out", "--name", "--reference"):
        parser.add_argument(option, default="")
    folder = ""
    try:
        own, words = parser.parse_known_args(_split(line))
        if own.out and not own.out.isidentifier():
            raise InputError(f"--out {short(own.out)} names no variable; give a name such as --out r")
        if cell is None and (own.name or own.reference):
            raise InputError("--name and --reference are for a kernel in the cell: begin it with %%cudalab")
        if cell is not None:
            words = words if words and not words[0].startswith("-") else ["check", *words]
            _takes_a_cell(words[0])
            kernel = cells.written(cell, own.name, own.reference)
            folder = f"{kernel.folder}/"
            words.append(str(kernel.spec))
        run = _command(words or ["--help"])
        if own.out and run is None:
            raise InputError(f"--out is for commands with results, such as check and bench, not for {words[0]}")
    except CudalabError as error:
        raise CellError(visible(str(error).replace(folder, "") if folder else str(error), keep="\n")) from None
    if own.out:
        shell.user_ns[own.out] = run


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise InputError(f"cannot read the options {short(line)}: {error}; close each quote") from None


def _takes_a_cell(word: str) -> None:
    """Raise InputError unless a word is a command that runs on kernels."""
    command = main.get_command(click.Context(main), word)
    if command is None:
        raise unknown("command", word, main.list_commands(click.Context(main)))
    if not any(isinstance(p, click.Argument) and p.name == "kernels" for p in command.params):
        raise InputError(f"{word} takes no kernel; write %cudalab {word} in a line, or %%cudalab check above a kernel")


def _command(words: list[str]) -> Results | None:
    """Run a command and show its results; return them if it has any. Raises CudalabError for what it says is wrong."""
    output = Output()
    try:
        main.main(args=words, prog_name="cudalab", standalone_mode=False, obj=output)
    except click.ClickException as error:
        raise CellError(error.format_message()) from None
    except click.exceptions.Abort:
        raise KeyboardInterrupt from None
    except SystemExit as ended:
        if ended.code == STOPPED:
            raise KeyboardInterrupt from None
    return output.run
