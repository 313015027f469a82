from __future__ import annotations

import sys
from collections import Counter

import click

from cudalab.cli import complete, terminal
from cudalab.cli.options import quiet, store


@click.command("record")
@click.argument("files", nargs=-1, required=True, metavar="RESULTS...", shell_complete=complete.files)
@store
@quiet
def command(files: tuple[str, ...], store: str, quiet: bool) -> None:
    """Add results files to the history that `cudalab history` shows.

    The history keeps the median of every time, and what it depends on: digests of the sources, commit, card, driver,
    versions of libraries. Samples stay in RESULTS. The history keeps the path to RESULTS: move both together. A folder
    stands for the results files in it. A file whose content was recorded before adds nothing.

    \b
    cudalab record results.json
    cudalab record results/ --store history.db

    Exit code: 0, or 2 if a file cannot be read or the history cannot be written; other files are recorded all the same.
    """
    from cudalab.results.file import expanded
    from cudalab.tools.history import record

    counts: Counter[str] = Counter()
    for found in record.record_files(expanded(files), store):
        counts[found.what] += 1
        if found.reason and not (quiet and found.what == record.NOTHING):
            terminal.say(f"{found.what}: {found.reason}")
    if not quiet:
        done = [record.ADDED, *(what for what in (record.KNOWN, record.NOTHING, record.BAD) if counts[what])]
        terminal.say(f"{store}: {', '.join(f'{counts[what]:,} {what}' for what in done)}")
    sys.exit(2 if counts[record.BAD] else 0)
