from __future__ import annotations

import sys

import click

from cudalab.cli import complete
from cudalab.cli.compared import FORMATS, min_effect, printed


@click.command("compare")
@click.argument("old", shell_complete=complete.files)
@click.argument("new", shell_complete=complete.files)
@click.option("--kind", default="", metavar="LIST", help="Of cold, hot, graph, graph_cold, call, api, wall; or all. "
              "Default: cold, on a CPU wall.")  # fmt: skip
@min_effect
@click.option("--kernel", "kernels", multiple=True, metavar="NAME", help="Compare this kernel alone; may be repeated.")
@click.option("--only", default="", metavar="GLOBS", help="Backends or backend:entry, such as 'torch_*,pycuda'.")
@click.option("--skip", default="", metavar="GLOBS", help="The same, to leave out.")
@click.option("--force", is_flag=True, help="Compare although machine, driver, clocks, versions or options differ.")
@click.option("--format", default="table", show_default=True, type=click.Choice(FORMATS))
def command(old: str, new: str, kind: str, min_effect: float, kernels: tuple[str, ...], only: str, skip: str,
            force: bool, format: str) -> None:  # fmt: skip
    """Did anything become slower from OLD to NEW?

    Each case that both results files have is FASTER, SAME, SLOWER or UNCLEAR. A difference counts if it is surely
    larger than what two runs of the same code differ by (4 %, more for a few microseconds, a factor of 2 for times of
    the host) and than --min-effect.

    \b
    cudalab compare main.json branch.json
    cudalab compare main.json branch.json --kind cold,graph --min-effect 5%

    Exit code: 0 nothing slower, 1 something slower, 2 bad input, 3 a wrong answer in either file, 4 not comparable.
    Where several hold: 2, then 4, then 3, then 1.
    """
    from cudalab.results import compare
    from cudalab.results.file import load

    runs = load(old), load(new)
    found = compare.compare(*runs, kind, min_effect, force, kernels, only, skip)
    printed(found, (old, new), format)
    sys.exit(found.exit_code)
