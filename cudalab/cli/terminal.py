"""What a stream can show: colours, lines that are redrawn, characters beyond ASCII."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn, TextIO

import click

from cudalab.base.text import visible

BLOCKS = "\u2581\u2588"  # a character of a histogram and one of a bar
ROOM = 30  # characters of a text beside its indent


def is_program() -> bool:
    """Whether this process is the command, and not a program that calls it."""
    return os.path.basename(sys.argv[0]) == "cudalab" or sys.argv[0].endswith(
        ("cudalab/__main__.py", "cudalab/cli/__main__.py")
    )


def colored(stream: TextIO) -> bool:
    """Tell whether to write colours: on a terminal, unless TERM=dumb or CLICOLOR=0.

    NO_COLOR overrides FORCE_COLOR and CLICOLOR_FORCE, which override the rest: https://no-color.org,
    https://force-color.org, https://bixense.com/clicolors.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if any(os.environ.get(name, "0") not in ("", "0", "false") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return _has_control_codes(stream) and os.environ.get("CLICOLOR") != "0"


def live(stream: TextIO) -> bool:
    """Tell whether to redraw lines: on a terminal that is not the log of a CI job."""
    return _has_control_codes(stream) and os.environ.get("CI", "false").lower() in ("", "0", "false")


def draws(stream: TextIO) -> bool:
    """Tell whether the stream shows block characters. The font of the Linux console (TERM=linux) lacks most of them."""
    if stream.isatty() and (os.environ.get("TERM") or "dumb") in ("dumb", "linux"):
        return False
    try:
        BLOCKS.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def width(stream: TextIO) -> int | None:
    """Return the columns of a terminal, or those that COLUMNS sets; None for a pipe."""
    return shutil.get_terminal_size().columns if stream.isatty() or os.environ.get("COLUMNS") else None


def height(stream: TextIO) -> int | None:
    """Return the lines of a terminal; None for a pipe."""
    return shutil.get_terminal_size().lines if stream.isatty() else None


def wrapped(text: str, indent: int, stream: TextIO | None = None) -> str:
    """Wrap each line of `text` to the terminal's columns, between words; indent what goes on. In a pipe: unchanged.

    Where the indent leaves room for fewer than ROOM characters, it is small.
    """
    columns = width(stream or sys.stdout)
    if columns is None:
        return text
    indent = indent if columns - indent >= ROOM else min(indent, 4)
    return "\n".join(
        textwrap.fill(line, max(columns, ROOM), subsequent_indent=" " * indent, break_long_words=False,
                      break_on_hyphens=False, replace_whitespace=False)
        for line in text.split("\n")
    )  # fmt: skip


def say(text: str) -> None:
    """Print a message (an error, a warning, a note) on standard error, wrapped between words on a terminal."""
    click.echo(encodable(wrapped(visible(text, keep="\n"), 0, sys.stderr), sys.stderr), err=True)


def stopped(text: str, command: str = "") -> NoReturn:
    """Say that Ctrl-C stopped the command, and which `command` continues it; exit with 130, as shells report it."""
    columns = width(sys.stderr)
    if columns is not None and len(text) + 1 + len(command) > columns:
        say(text)
        click.echo(encodable(visible(command), sys.stderr), err=True)  # in one piece, since it is copied
    else:
        say(f"{text} {command}".rstrip())
    # Python notes when Ctrl-C interrupts the exec of a text, which dataclasses use, and `python -m` then ends by the
    # signal. Another exec removes the note.
    exec("")
    sys.exit(130)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Print warnings as the other messages, without the line of the lab's source that they come from."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        say(f"Warning: {message}")

    before = warnings.showwarning
    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before


def write(render: Callable[[int | None, bool], str], err: bool = False) -> None:
    """Print `render(width, color)` on standard output or standard error, as the stream can show it."""
    stream = sys.stderr if err else sys.stdout
    color = colored(stream)
    click.echo(encodable(render(width(stream), color), stream), err=err, color=color)


def wrote(path: str | os.PathLike[str], more: str = "") -> None:
    """Say on standard error which file a command has written, unless --quiet."""
    if not click.get_current_context().params.get("quiet"):
        click.echo(encodable(f"wrote {visible(os.fspath(path))}{more}", sys.stderr), err=True)


def encodable(text: str, stream: TextIO) -> str:
    """Replace what the stream's encoding lacks: the micro sign by u, other characters by escapes."""
    encoding = stream.encoding or "ascii"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.replace("\u00b5", "u").encode(encoding, "backslashreplace").decode(encoding)
    return text


def _has_control_codes(stream: TextIO) -> bool:
    return stream.isatty() and (os.environ.get("TERM") or "dumb") != "dumb"
