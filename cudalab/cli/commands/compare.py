from __future__ import annotations

import sys

import click

from cudalab.cli import complete
from cudalab.cli.baseline_gate import FORMATS
from cudalab.cli.inspection_gate import compare_files
from cudalab.cli.measure import print_comparison
from cudalab.cli.options import min_effect, selecting


@click.command("compare")
@click.argument("old", shell_complete=complete.files)
@click.argument("new", shell_complete=complete.files)
@click.option("--kind", default="", metavar="LIST", help="Times to compare: cold, hot, graph, graph_cold, "
              "call, api, wall, or all. Default: cold; on a CPU wall.")  # fmt: skip
@min_effect
@selecting
@click.option("--force", is_flag=True, help="Compare even if machine, driver, clocks, versions or options differ.")
@click.option("--format", default="table", show_default=True, type=click.Choice(FORMATS),
              help="Format of the printed comparison.")  # fmt: skip
def command(old: str, new: str, kind: str, min_effect: float, force: bool, format: str, **rows: str) -> None:
    """Compare two results files, case by case.

    Each case that OLD and NEW both have is FASTER, SAME, SLOWER or UNCLEAR. A difference counts if its whole interval
    lies beyond --min-effect. The interval includes what differs between processes, cards and days. Times of the host
    (call, api, wall) count only if they differ by a factor of 2.

    Two files of `cudalab inspect -o` are compared figure by figure: registers, spills, shared memory, instructions per
    element, predicted time. One that grows by more than --min-effect is WORSE, and the exit code is 1.

    \b
    cudalab compare main.json branch.json
    cudalab compare main.json branch.json --kind cold,graph --min-effect 5%
    cudalab compare main.json branch.json --kernel gelu --only 'gelu_*'

    Exit code: 0 nothing slower, 1 something slower, 2 bad input, 3 a wrong answer in NEW, 4 not comparable.
    If several apply, the first of 2, 4, 3, 1 is returned.
    """
    if (code := compare_files((old, new), min_effect, force, format)) is not None:
        sys.exit(code)
    from cudalab.cli.filter_results import filtered
    from cudalab.results import compare
    from cudalab.results.file import load

    before, after = filtered([load(old), load(new)], **rows)
    found = compare.compare(before, after, kind, min_effect, force)
    print_comparison(found, (old, new), format)
    sys.exit(found.exit_code)
