"""What a stream can show: colours, lines that are redrawn, characters beyond ASCII."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Callable
from typing import TextIO

import click

from cudalab.base.text import visible

BLOCKS = "\u2581\u2588"  # a character of a histogram and one of a bar


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


def wrapped(text: str, indent: int, stream: TextIO | None = None) -> str:
    """Wrap `text` to the terminal's columns, between words; indent all lines but the first. In a pipe: unchanged."""
    columns = width(stream or sys.stdout)
    if columns is None:
        return text
    blank = " " * indent
    lines = textwrap.wrap(text, max(columns, indent + 30), subsequent_indent=blank, break_long_words=False,
                          break_on_hyphens=False, replace_whitespace=False, drop_whitespace=True)  # fmt: skip
    return "\n".join(lines)


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
