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
@click.argument("names", nargs=-1, required=True, metavar="IN... [OUT]", shell_complete=complete.files)
@options.output(
    "the converted results, where no OUT is given; for several IN a folder", default="OUT", checked=options.not_empty
)
@click.option("--to", type=click.Choice(formats.FORMATS), help="Format of OUT. Default: by the ending of OUT.")
@options.selecting
@click.option("--salvage", is_flag=True, help="Read an IN that was cut off: keep its complete groups of cases.")
@click.option("--schema", is_flag=True, is_eager=True, expose_value=False, callback=_schema,
              help="Print the JSON Schema of a results file and exit.")  # fmt: skip
@options.quiet
def command(
    names: tuple[str, ...], output: str, to: str | None, salvage: bool, quiet: bool, **rows: str
) -> None:  # fmt: skip
    """Write results in another format.

    IN is a results file: JSON, JSON Lines or CSV, also with .gz. Write - for OUT to print to standard output. Several
    IN, or a folder of results files, need --to and a folder for OUT, which is made if its name ends in /.

    json and jsonl contain the whole run, csv almost all of it; every command that reads a results file reads all three.
    pytest-benchmark and nvbench are JSON for the viewers of those tools. docs/results-file.md describes the formats.

    \b
    cudalab convert results.json results.csv
    cudalab convert results.json theirs.json --to pytest-benchmark
    cudalab convert results.json -o gelu.jsonl --kernel gelu
    cudalab convert bench/results/h200/ -o csv/ --to csv
    cudalab convert --salvage cut_off.json mended.json

    Exit code: 0, or 2 if IN cannot be read, or if OUT exists and holds other data.
    """
    from cudalab.cli.filter_results import filtered
    from cudalab.results import convert, file

    named, target = (names, output) if output else (names[:-1], names[-1])
    if not named:
        raise click.UsageError("Missing argument 'OUT': cudalab convert IN OUT, or IN -o OUT")
    if len(named) == 2 and output and not _is_folder(output) and not os.path.exists(named[1]):
        raise click.UsageError("give the file to write once: cudalab convert IN OUT, or IN -o OUT")
    sources = file.expanded(named)
    if len(sources) > 1 and not _is_folder(target):
        raise InputError(f"{len(sources)} files need a folder to write to, and {target} is none; end its name with /, "
                         "such as -o csv/")  # fmt: skip
    if _is_folder(target):
        places = convert.places(sources, target, to)
    else:
        places = {sources[0]: (target, formats.format_for(target, to))}
    for place, format in places.values():
        if place != "-":
            convert.free(place, format)
    whole = [convert.read(source, salvage) for source in sources]
    for source, all_of_it, run in zip(sources, whole, filtered(whole, **rows), strict=True):
        place, format = places[source]
        if os.path.realpath(place) == os.path.realpath(source) and len(run.cases) < len(all_of_it.cases):
            raise InputError(f"{source} would lose the rows that are not chosen; give another file for OUT")
        if run.cases or len(sources) == 1:
            _write(formats.encoded(run, format), place, format)


def _is_folder(name: str) -> bool:
    return name.endswith(os.sep) or os.path.isdir(name)


def _write(data: bytes, place: str, format: str) -> None:
    """Write the file, or print it where `place` is -."""
    from cudalab.base.claim import claimed
    from cudalab.base.files import write

    if place != "-":
        with claimed(place):
            write(place, data)
        terminal.wrote(place)
    elif sys.stdout.isatty():
        click.echo((partial(visible, keep="\r\n") if format == "csv" else visible_json)(data.decode()), nl=False)
    else:
        click.echo(data, nl=False)  # UTF-8 in any locale
