from __future__ import annotations

from typing import Any

import click

from cudalab.cli import complete
from cudalab.cli.terminal import said


@click.command("inspect")
@click.argument("kernel", shell_complete=complete.kernels)
@click.option("--dtypes", default="", metavar="LIST", help="Such as float32,bfloat16, or all.",
              shell_complete=complete.dtypes)  # fmt: skip
@click.option("--only", default="", metavar="GLOBS", help="Entries, such as 'gelu_*'.")
@click.option("--size", default="", metavar="SIZE", help="One of `bench --sizes`. Default: the largest of the spec's.",
              shell_complete=complete.sizes)  # fmt: skip
@click.option("--arch", "archs", default="", metavar="LIST", help="Such as sm_80,sm_90. Default: the card's.")
@click.option("--card", default="", metavar="NAME", help="Whose limits to predict with, such as A100 or RTX4090. "
              "Default: that of --results; without --arch, H200.")  # fmt: skip
@click.option("--results", "file", default="", metavar="FILE", help="Measured times to show beside the prediction.",
              shell_complete=complete.files)  # fmt: skip
@click.option("--sass", is_flag=True, help="Also print the machine code that a thread executes.")
@click.option("--format", default="table", show_default=True, type=click.Choice(("table", "json")))
def command(sass: bool, format: str, **options: Any) -> None:
    """Why is a kernel as fast as it is?

    Compiles KERNEL, reads its machine code, and follows one thread of the launch through it: registers, spills,
    occupancy, the width of loads and stores, what kinds of instructions an element costs, and how long each unit of
    the card is busy at least. Needs nvcc and nvdisasm, and neither a GPU nor a profiler.

    \b
    cudalab inspect gelu --dtypes all
    cudalab inspect gelu --dtypes bfloat16 --results bench/results/h200/gelu.json
    cudalab inspect ./softmax.py --card RTX4090 --only 'softmax*' --sass

    Exit code: 0, or 2 for bad input, a kernel that does not compile, or a missing tool.
    """
    from cudalab.report import inspection as report
    from cudalab.tools import inspect

    name = options.pop("kernel")
    found = inspect.inspect(name, **options)
    if format == "json":
        return click.echo(report.as_json(found))
    return said(lambda width, color: report.render(found, width, color, sass))
