from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from cudalab.cli import complete, terminal
from cudalab.cli.baseline_gate import FORMATS
from cudalab.cli.inspection_gate import compare_files
from cudalab.cli.measure import print_comparison
from cudalab.cli.options import min_effect, selecting

if TYPE_CHECKING:
    from cudalab.results.record import Results


@click.command("compare")
@click.argument("old", shell_complete=complete.files)
@click.argument("new", nargs=-1, required=True, metavar="NEW...", shell_complete=complete.files)
@click.option("--kind", default="", metavar="LIST", help="Times to compare: cold, hot, graph, graph_cold, "
              "call, api, wall, burst, sustained, energy, or all. Default: cold; on a CPU wall.")  # fmt: skip
@min_effect
@selecting
@click.option("--force", is_flag=True, help="Compare even if machine, driver, clocks, versions or options differ.")
@click.option("--format", default="table", show_default=True, type=click.Choice(FORMATS),
              help="Format of the printed comparison.")  # fmt: skip
def command(
    old: str, new: tuple[str, ...], kind: str, min_effect: float, force: bool, format: str, **rows: str
) -> None:
    """Compare results files, case by case.

    Each case that OLD and NEW both have is FASTER, SAME, SLOWER or UNCLEAR. A difference counts if its whole interval
    lies beyond --min-effect. The interval includes what differs between processes, cards and days. Times of the host
    (call, api, wall) count only if they differ by a factor of 2.

    Files are JSON, JSON Lines or CSV, also with .gz. Several NEW are each compared with OLD. A folder is compared file
    by file: OLD/gelu.json with NEW/gelu.json.gz. --format json prints an array for several files and folders.

    Two files of `cudalab inspect -o` are compared figure by figure: registers, spills, shared memory, instructions per
    element, predicted time. One that grows by more than --min-effect is WORSE, and the exit code is 1.

    \b
    cudalab compare main.json branch.json
    cudalab compare main.json branch.json --kind cold,graph --min-effect 5%
    cudalab compare main.json branch.json --kernel gelu --only 'gelu_*'
    cudalab compare results/main/ results/branch/

    Exit code: 0 nothing slower, 1 something slower, 2 bad input, 3 a wrong answer in NEW, 4 not comparable.
    If several apply, the first of 2, 4, 3, 1 is returned.
    """
    from cudalab.report import comparison
    from cudalab.report.table import in_short
    from cudalab.results import compare, file
    from cudalab.tools.inspect import kept

    pairs, alone = file.pairs(old, new)
    runs = _loaded([pair for pair in pairs if not kept.is_one(pair[0]) and not kept.is_one(pair[1])], rows)
    for pair in pairs:
        if kept.is_one(pair[0]) != kept.is_one(pair[1]):
            compare_files(pair, min_effect, force, format)  # says which of the two is what
    found = {
        pair: compare.compare(before, after, kind, min_effect, force)
        for pair, (before, after) in runs.items()
        if len(pairs) == 1 or before.cases or after.cases
    }
    codes, said = set[int](), list[str]()
    listed = format == "json" and (len(new) > 1 or any(map(os.path.isdir, (old, *new))))  # also where it is one pair
    if listed:
        click.echo("[")
    for pair in pairs:
        if pair in runs and pair not in found:
            continue  # it has no row that was chosen
        if codes:
            click.echo("," if listed else "")
        if pair not in runs:
            codes.add(compare_files(pair, min_effect, force, format) or 0)
            continue
        print_comparison(found[pair], pair, format)
        codes.add(found[pair].exit_code)
        said.append(f"{file.stem(pair[1]) if len(new) == 1 else pair[1]}: {comparison.sentence(found[pair])}")
    if listed:
        click.echo("]")
    if len(said) > 1 and format == "table":
        terminal.write(lambda width, color: in_short(said, width, color))
    if alone:
        terminal.say(f"not compared, no file of the same name: {', '.join(alone)}")
    sys.exit(max(codes))


def _loaded(pairs: list[tuple[str, str]], rows: dict[str, str]) -> dict[tuple[str, str], list[Results]]:
    """The old and the new run of each pair, with the rows that were chosen."""
    from cudalab.cli.filter_results import filtered
    from cudalab.results.file import load

    runs = {name: load(name) for name in dict.fromkeys(name for pair in pairs for name in pair)}
    chosen = dict(zip(runs, filtered([*runs.values()], **rows), strict=True)) if runs else {}
    return {pair: [chosen[name] for name in pair] for pair in pairs}
