"""A command line as a user types it, parsed and not run."""

from __future__ import annotations

import click

from cudalab.cli import main


def parsed(name: str, words: list[str]) -> None:
    """Parse the words of a command; raises what the command line raises. No command of this name: AssertionError."""
    # click keeps the help option of a command from its first use, and takes its names from the parent.
    lab = click.Context(main, info_name="cudalab", **main.context_settings)
    command = main.get_command(lab, name)
    assert command, f"no command {name}"
    command.make_context(name, words, parent=lab)
