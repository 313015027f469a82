"""The magics `%cudalab` and `%%cudalab`: a command of the command line, with results as HTML."""

from __future__ import annotations

import argparse
import re
import shlex
from html import escape
from keyword import iskeyword
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

    def __init__(self, spec: str = "") -> None:
        self.run: Results | None = None
        self._spec = spec  # the file of a cell's kernel, which is gone when the output is read
        self._handle: Any = None

    def progress(self, line: str) -> None:
        self._show({"text/plain": line})

    def results(self, run: Results) -> None:
        from cudalab.report.results import Results as Shown

        shown = Shown.of(run)
        text, html = self._as_magics(str(shown)), shown._repr_html_()
        if html is None:
            self._show({"text/plain": f"{text}\n\nfor tables and charts: {advice.extra('notebook')}"})
        else:
            self._show({"text/plain": text, "text/html": self._as_magics(html)})
        self.run, self._handle = shown, None

    def _as_magics(self, text: str) -> str:
        """`text` with `%%cudalab bench` in place of a command on the cell's file."""
        files = "|".join(re.escape(name) for name in {self._spec, escape(self._spec)} if name)
        return re.sub(rf"\bcudalab (\w+) (?:{files})", r"%%cudalab \1", text) if files else text

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
        if own.out and (iskeyword(own.out) or not own.out.isidentifier()):
            raise InputError(f"--out {short(own.out)} names no variable; give a name such as --out r")
        if cell is None and (own.name or own.reference):
            raise InputError("--name and --reference are for a kernel in the cell: begin it with %%cudalab")
        shell.user_ns.pop(own.out, None)  # of an earlier run: this one may fail
        if cell is not None:
            words = words if words and not words[0].startswith("-") else ["check", *words]
            _takes_a_cell(words)
            kernel = cells.written(cell, own.name, own.reference)
            folder = f"{kernel.folder}/"
            words.append(str(kernel.spec))
        run = _command(words or ["--help"], str(kernel.spec) if cell is not None else "")
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


def _takes_a_cell(words: list[str]) -> None:
    """Raise InputError unless the first word is a command that runs on kernels, and the options are its own."""
    word, *others = words
    command = main.get_command(click.Context(main), word)
    if command is None:
        raise unknown("command", word, main.list_commands(click.Context(main)))
    if not any(isinstance(p, click.Argument) and p.name == "kernels" for p in command.params):
        raise InputError(f"{word} takes no kernel; write %cudalab {word} in a line, or %%cudalab check above a kernel")
    known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)} | {"--help"}
    for other in others:
        if (option := other.partition("=")[0]).startswith("--") and option not in known:
            raise unknown("option", option, sorted(known | {"--out", "--name", "--reference"}))
        if other in main.list_commands(click.Context(main)):
            raise InputError(f"the command comes first: %%cudalab {other} ...")


def _command(words: list[str], spec: str) -> Results | None:
    """Run a command and show its results; return them if it has any. Raises CudalabError for what it says is wrong."""
    output = Output(spec)
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
