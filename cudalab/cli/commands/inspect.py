from __future__ import annotations

from typing import Any

import click

from cudalab.cli import complete, terminal
from cudalab.cli.options import dtype, kernels, only, size


@click.command("inspect")
@kernels()
@size("the largest of the spec", dest="sizes")
@dtype("the spec's first", dest="dtypes")
@only
@click.option(
    "--arch", "archs", default="", metavar="LIST", help="Architectures, such as sm_80,sm_90. Default: that of the card."
)
@click.option("--card", default="", metavar="NAME", help="Card whose limits the prediction uses, such as A100 or "
              "RTX4090. Default: that of --results; without --arch, H200.")  # fmt: skip
@click.option("--results", "file", default="", metavar="FILE", shell_complete=complete.files,
              help="Show the measured times of FILE beside the prediction. Default: none.")  # fmt: skip
@click.option("--sass", is_flag=True, help="Also print the machine code that a thread executes.")
@click.option("--format", default="table", show_default=True, type=click.Choice(("table", "json")),
              help="Format of the output.")  # fmt: skip
def command(kernels: tuple[str, ...], sizes: str, sass: bool, format: str, **options: Any) -> None:
    """Explain a kernel's speed from its machine code.

    Compiles each KERNEL, reads its machine code, and follows one thread of the launch through it. Shows registers,
    spills, occupancy, the width of loads and stores, the kinds of instructions per element, and the least time that
    each unit of the card is busy. Needs nvcc and nvdisasm, but no GPU and no profiler.

    \b
    cudalab inspect gelu --dtype all
    cudalab inspect gelu --dtype bfloat16 --results bench/results/h200/gelu.json
    cudalab inspect ./mine/ --card A100
    cudalab inspect ./softmax.py --card RTX4090 --only 'softmax*' --sass

    Exit code: 0, or 2 for bad input, a kernel that does not compile, or a missing tool.
    """
    from cudalab.engine import plan
    from cudalab.report import inspection as report
    from cudalab.spec.sizes import parse
    from cudalab.tools import inspect

    found: list[inspect.Inspected] = []
    for kernel in plan.named(kernels).values():
        for label in parse(sizes, kernel.sizes) if sizes else [""]:
            found += inspect.inspect(kernel.file, size=label, **options)
    if format == "json":
        return click.echo(report.as_json(found))
    return terminal.write(lambda width, color: report.render(found, width, color, sass))
