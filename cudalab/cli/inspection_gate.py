"""The comparison of two files of `inspect -o`, for `inspect --baseline` and `compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cudalab.base.errors import InputError
from cudalab.cli import terminal

if TYPE_CHECKING:
    from cudalab.tools.inspect.gate import Gate


def compare_files(names: tuple[str, str], min_effect: float, force: bool, format: str) -> int | None:
    """Compare two such files, print it, and return the exit code; None where neither is one of `inspect -o`."""
    from cudalab.tools.inspect import gate, kept

    are = [kept.is_one(name) for name in names]
    if not any(are):
        return None
    if not all(are):
        inspection, other = sorted(names, key=lambda name: not are[names.index(name)])
        raise InputError(f"`cudalab inspect` wrote {inspection}, but not {other}; give two files of one kind")
    old, new = map(kept.load, names)
    found = gate.compare(old, new, min_effect, force)
    print_gate(found, names, format)
    return found.exit_code


def print_gate(found: Gate, names: tuple[str, str], format: str, err: bool = False) -> None:
    """Print the comparison on standard output or on standard error."""
    from cudalab.report import inspection_gate

    terminal.write(lambda width, color: inspection_gate.render(found, names, format, width, color), err)
    if found.differences and found.refusal:
        click.echo("to compare anyway, add --force", err=True)
