"""What a stream can show: colour, lines that are written over, characters beyond ASCII."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from typing import TextIO

import click

BLOCKS = "\u2581\u2588"  # characters of a sparkline and of a bar


def colored(stream: TextIO) -> bool:
    """Whether colours are wanted: on a terminal, but for TERM=dumb and CLICOLOR=0; NO_COLOR and FORCE_COLOR decide.

    As in https://no-color.org, https://force-color.org and https://bixense.com/clicolors; NO_COLOR is the strongest.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if any(os.environ.get(name, "0") not in ("", "0", "false") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return _obeys(stream) and os.environ.get("CLICOLOR") != "0"


def live(stream: TextIO) -> bool:
    """Whether lines can be written over and somebody sees it: a terminal that is not a CI job's log."""
    return _obeys(stream) and os.environ.get("CI", "false").lower() in ("", "0", "false")


def draws(stream: TextIO) -> bool:
    """Whether block characters can be shown. TERM=linux is the console of the kernel, whose font lacks most."""
    if stream.isatty() and (os.environ.get("TERM") or "dumb") in ("dumb", "linux"):
        return False
    try:
        BLOCKS.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def width(stream: TextIO) -> int | None:
    """Columns of a terminal, or those that COLUMNS says; None in a pipe."""
    return shutil.get_terminal_size().columns if stream.isatty() or os.environ.get("COLUMNS") else None


def said(render: Callable[[int | None, bool], str], err: bool = False) -> None:
    """Print what is rendered for a width and with colour or without, as standard output, or error, can show it."""
    stream = sys.stderr if err else sys.stdout
    color = colored(stream)
    click.echo(encodable(render(width(stream), color), stream), err=err, color=color)


def encodable(text: str, stream: TextIO) -> str:
    """`text` with a u for micro where the stream's encoding has no such sign, and escapes for what else it lacks."""
    encoding = stream.encoding or "ascii"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.replace("\u00b5", "u").encode(encoding, "backslashreplace").decode(encoding)
    return text


def _obeys(stream: TextIO) -> bool:
    """A terminal that obeys control characters."""
    return stream.isatty() and (os.environ.get("TERM") or "dumb") != "dumb"
