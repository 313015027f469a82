from __future__ import annotations

import sys
from typing import Any

import click

from cudalab.cli import complete
from cudalab.cli.compared import against, gate
from cudalab.cli.options import choosing
from cudalab.cli.work import exit_code, given, measured


@click.command("bench")
@choosing
@click.option("--sizes", default="small,large", show_default=True, metavar="LIST", shell_complete=complete.sizes,
              help="Names, 64K, 1M, 2^20, 4096x4096, 2^[10:24:2].")  # fmt: skip
@click.option("--modes", default="launch,graph", show_default=True, metavar="LIST", help="Of launch, graph, api.",
              shell_complete=complete.modes)  # fmt: skip
@click.option(
    "--order",
    default="shuffled",
    show_default=True,
    type=click.Choice(["shuffled", "blocked"]),
    help="Of the variants within a round; blocked: one after the other, as a cross-check.",
)
@click.option("--costs", is_flag=True, help="Also show what is spent once: compilation, first run, graph.")
@click.option("--fresh-caches", is_flag=True, help="Compile everything anew: what --costs shows is then cold.")
@click.option("--cross-check", default="", metavar="nvbench",
              help="Also have NVBench time the same launches: up to half a minute each.")  # fmt: skip
@click.option("--budget", default=1.0, show_default=True, metavar="SECONDS", help="Of sampling for each variant.")
@gate
def command(format: str, output: str | None, kernels: tuple[str, ...], **options: Any) -> None:
    """Check, then time kernels on every backend.

    A KERNEL is a name from `cudalab list` or the path of your own spec, such as ./mine/softmax.py; with none given,
    all kernels of the lab are measured.

    \b
    cudalab bench gelu --sizes small,large --dtypes all -o results.json
    cudalab bench ./softmax.py --sizes '2^[8:12]x1024' --only 'pycuda,torch_*'
    cudalab bench --baseline main.json -o branch.json

    With --baseline, kernels, sizes, dtypes, only, skip, modes, seed and order that you do not give are those of the
    baseline, and after the table comes what `cudalab compare` says about it.

    Exit code: 0 all right, 1 a wrong answer, 2 bad input or a kernel that does not compile or run; with --baseline
    that of `cudalab compare`: 1 something slower, 3 a wrong answer, 4 not comparable.
    """
    from cudalab.engine import session

    costs = options.pop("costs")
    baseline = {name: options.pop(name) for name in ("baseline", "min_effect", "force")}
    alone = sorted({"min_effect", "force"} & given())
    if alone and not baseline["baseline"]:
        raise click.UsageError(f"--{alone[0].replace('_', '-')} is about a comparison; add --baseline FILE")
    if baseline["baseline"]:
        sys.exit(against(**baseline, kernels=kernels, options=options, format=format, output=output, costs=costs))
    sys.exit(exit_code(measured(session.bench, kernels, options, format, output, costs)))
