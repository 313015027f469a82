from __future__ import annotations

import os
import sys
from functools import partial

import click

from cudalab.base.errors import InputError
from cudalab.base.text import visible, visible_json
from cudalab.cli import complete, options, terminal
from cudalab.results import formats


def _schema(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted:
        from cudalab.results import schema

        click.echo(schema.as_text())
        context.exit()


@click.command("convert")
@click.argument("source", metavar="IN", shell_complete=complete.files)
@click.argument("target", metavar="[OUT]", required=False, shell_complete=complete.files)
@options.output("the converted results, where no OUT is given", default="OUT", checked=options.not_empty)
@click.option("--to", type=click.Choice(formats.FORMATS), help="Format of OUT. Default: by the ending of OUT.")
@options.selecting
@click.option("--salvage", is_flag=True, help="Read an IN that was cut off: keep its complete groups of cases.")
@click.option("--schema", is_flag=True, is_eager=True, expose_value=False, callback=_schema,
              help="Print the JSON Schema of a results file and exit.")  # fmt: skip
@options.quiet
def command(
    source: str, target: str | None, output: str, to: str | None, salvage: bool, quiet: bool, **rows: str
) -> None:
    """Write results in another format.

    IN is a results file; write - for OUT to print to standard output. json and jsonl contain the whole run,
    csv almost all of it; every command that reads a results file reads all three. pytest-benchmark and nvbench are JSON
    for the viewers of those tools. docs/results-file.md describes the formats.

    \b
    cudalab convert results.json results.csv
    cudalab convert results.json theirs.json --to pytest-benchmark
    cudalab convert results.json -o gelu.jsonl --kernel gelu
    cudalab convert --salvage cut_off.json mended.json

    Exit code: 0, or 2 if IN cannot be read, or if OUT exists and holds other data.
    """
    from cudalab.base.files import claimed, write
    from cudalab.cli.filter_results import filtered
    from cudalab.results import convert

    if bool(target) == bool(output):
        raise click.UsageError("give the file to write once: cudalab convert IN OUT, or IN -o OUT")
    target = target or output
    format = formats.format_for(target, to)
    place = None if target == "-" else convert.free(target, format)
    whole = convert.read(source, salvage)
    (run,) = filtered([whole], **rows)
    if place and os.path.realpath(place) == os.path.realpath(source) and len(run.cases) < len(whole.cases):
        raise InputError(f"{source} would lose the rows that are not chosen; give another file for OUT")
    data = formats.encoded(run, format)  # UTF-8 in any locale
    if place is None:
        shown = partial(visible, keep="\r\n") if format == "csv" else visible_json
        click.echo(shown(data.decode()) if sys.stdout.isatty() else data, nl=False)
    else:
        with claimed(place):
            write(place, data)
        terminal.wrote(target)
