from __future__ import annotations

import sys
from functools import partial

import click

from cudalab.base.text import visible, visible_json
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
@click.option("--to", type=click.Choice(formats.FORMATS), help="Format of OUT. Default: by the ending of OUT.")
@click.option("--salvage", is_flag=True, help="Read an IN that was cut off: keep its complete groups of cases.")
@click.option("--schema", is_flag=True, is_eager=True, expose_value=False, callback=_schema,
              help="Print the JSON Schema of a results file and exit.")  # fmt: skip
def command(source: str, target: str, to: str | None, salvage: bool) -> None:
    """Write results in another format.

    IN is a results file; an OUT of - is standard output. json and jsonl contain the whole run, csv almost all of it;
    every command that reads a results file reads all three. pytest-benchmark and nvbench are JSON for the viewers of
    those tools. docs/results-file.md describes the formats.

    \b
    cudalab convert results.json results.csv
    cudalab convert results.json theirs.json --to pytest-benchmark
    cudalab convert --salvage cut_off.json mended.json

    Exit code: 0, or 2 if IN cannot be read, or if OUT exists and holds other data.
    """
    from cudalab.base.files import write
    from cudalab.results import convert

    format = formats.format_for(target, to)
    if target == "-":
        data = convert.converted(source, format, salvage)  # UTF-8 in any locale
        shown = partial(visible, keep="\r\n") if format == "csv" else visible_json
        click.echo(shown(data.decode()) if sys.stdout.isatty() else data, nl=False)
    else:
        place = convert.free(target, format)
        write(place, convert.converted(source, format, salvage))
