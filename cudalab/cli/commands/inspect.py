from __future__ import annotations

import os
import sys
from typing import Any

import click

from cudalab.base.errors import InputError
from cudalab.cli import complete, terminal
from cudalab.cli.inspection_gate import print_gate
from cudalab.cli.options import dtype, kernels, min_effect, not_empty, only, size
from cudalab.cli.options import output as output_option


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
@output_option("registers, spills, shared memory, instructions an element and predicted times, for `cudalab compare`")
@click.option("--baseline", default="", metavar="FILE", callback=not_empty, shell_complete=complete.files,
              help="Compare with FILE, an earlier -o; the comparison sets the exit code. Default: none.")  # fmt: skip
@min_effect
@click.option("--force", is_flag=True, help="Compare although nvcc, the card or the rate of the memory differ.")
@click.option("--format", default="table", show_default=True, type=click.Choice(("table", "json")),
              help="Format of the output.")  # fmt: skip
def command(
    kernels: tuple[str, ...], sizes: str, sass: bool, format: str, output: str, baseline: str, min_effect: float,
    force: bool, **options: Any,
) -> None:  # fmt: skip
    """Explain the speed of kernels from their machine code.

    Compiles each KERNEL, reads its machine code, and follows one thread of the launch through it. Shows registers,
    spills, occupancy, the width of loads and stores, the kinds of instructions per element, and the least time that
    each unit of the card is busy. Needs nvcc and nvdisasm, but no GPU and no profiler.

    \b
    cudalab inspect gelu --dtype all
    cudalab inspect gelu --dtype bfloat16 --results bench/results/h200/gelu.json
    cudalab inspect ./mine/ --card A100
    cudalab inspect ./softmax.py --card RTX4090 --only 'softmax*' --sass

    A gate for CI that needs no GPU: `inspect KERNEL -o main.json` on the main branch, `inspect KERNEL --baseline
    main.json` on the branch. A figure that grows by more than --min-effect is WORSE.

    Exit code: 0, or 2 for bad input, a kernel that does not compile, or a missing tool. With --baseline also 1 where
    something is WORSE, and 4 where the two are not comparable.
    """
    from cudalab.engine import plan
    from cudalab.report import inspection as report
    from cudalab.spec.sizes import parse
    from cudalab.tools import inspect
    from cudalab.tools.inspect import compilers, gate, kept

    if output:
        kept.writable(output)
    if output and baseline and os.path.realpath(output) == os.path.realpath(baseline):
        raise InputError(f"{baseline} is the baseline and would be replaced; give another file with -o")
    old = kept.load(baseline) if baseline else None
    found: list[inspect.Inspected] = []
    for kernel in plan.named(kernels).values():
        for label in parse(sizes, kernel.sizes) if sizes else [""]:
            found += inspect.inspect(kernel.file, size=label, **options)
    new = kept.of(found, compilers.release()) if output or old else None
    if output and new:
        kept.save(new, output)
        terminal.wrote(output)
    if format == "json":
        click.echo(report.as_json(found))
    else:
        terminal.write(lambda width, color: report.render(found, width, color, sass))
    if old and new:
        if format != "json":
            click.echo()
        compared = gate.compare(old, new, min_effect, force)
        print_gate(compared, (baseline, output or "this code"), "table", err=format == "json")
        sys.exit(compared.exit_code)
