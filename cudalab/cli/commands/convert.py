from __future__ import annotations

import sys

import click

from cudalab.base.text import visible
from cudalab.cli import complete
from cudalab.results import formats


def _schema(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted:
        from cudalab.results import schema

        click.echo(schema.as_text())
        context.exit()


@click.command("convert")
@click.argument("source", metavar="IN", shell_complete=complete.files)
@click.argument("target", metavar="OUT", shell_complete=complete.files)
@click.option("--to", type=click.Choice(formats.FORMATS), help="If not given, as OUT ends.")
@click.option("--salvage", is_flag=True, help="IN was cut off: keep the groups of cases that are whole.")
@click.option("--schema", is_flag=True, is_eager=True, expose_value=False, callback=_schema,
              help="Print the JSON Schema of a results file, and do nothing else.")  # fmt: skip
def command(source: str, target: str, to: str | None, salvage: bool) -> None:
    """Write results in another format.

    IN is a results file; OUT - is standard output. json and jsonl hold the whole run, csv nearly so; all three can be
    given wherever a results file can. pytest-benchmark and nvbench are JSON for the viewers of those tools.
    docs/results-file.md describes the formats.

    \b
    cudalab convert results.json results.csv
    cudalab convert results.json theirs.json --to pytest-benchmark
    cudalab convert --salvage cut_off.json mended.json

    Exit code: 0, or 2 if IN cannot be read, or OUT is a file that would be lost.
    """
    from cudalab.base.files import write
    from cudalab.results import convert

    format = formats.format_for(target, to)
    if target == "-":
        data = convert.converted(source, format, salvage)  # UTF-8, whatever the terminal's encoding is
        click.echo(visible(data.decode(), keep="\r\n") if sys.stdout.isatty() else data, nl=False)
    else:
        place = convert.free(target, format)
        write(place, convert.converted(source, format, salvage))
