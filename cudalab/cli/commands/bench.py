from __future__ import annotations

import sys
from typing import Any

import click

from cudalab.cli.options import choosing
from cudalab.cli.work import exit_code, measured


@click.command("bench")
@choosing
@click.option("--sizes", default="small,large", show_default=True, metavar="LIST",
              help="Names, 64K, 1M, 2^20, 4096x4096, 2^[10:24:2].")  # fmt: skip
@click.option("--modes", default="launch,graph", show_default=True, metavar="LIST", help="Of launch, graph.")
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
def command(format: str, output: str | None, kernels: tuple[str, ...], **options: Any) -> None:
    """Check, then time each KERNEL on every backend (default: all kernels of the lab).

    A KERNEL is a name from `cudalab list` or the path of your own spec, such as ./mine/softmax.py.

    \b
    cudalab bench gelu --sizes small,large --dtypes all -o results.json
    cudalab bench ./mine/softmax.py --sizes '2^[8:12]x1024' --only 'pycuda,torch_*'

    Exit code: 0 all right, 1 a wrong answer, 2 bad input or a kernel that does not compile or run.
    """
    from cudalab import runner

    costs = options.pop("costs")
    sys.exit(exit_code(measured(runner.bench, kernels, options, format, output, costs)))
