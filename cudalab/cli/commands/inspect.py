from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from cudalab.base.errors import CompileError, CudalabError, InputError, SpecError
from cudalab.cli import complete, terminal
from cudalab.cli.inspection_gate import print_gate
from cudalab.cli.options import dtype, kernels, min_effect, not_empty, only, quiet, size, skip, table_or_json
from cudalab.cli.options import output as output_option

if TYPE_CHECKING:
    from cudalab.tools.inspect import Inspected


@click.command("inspect")
@kernels()
@size("the largest of the spec", dest="sizes")
@dtype("the spec's first", dest="dtypes")
@only
@skip
@click.option(
    "--arch", "archs", default="", metavar="LIST", help="Architectures, such as sm_80,sm_90. Default: that of the card."
)
@click.option("--card", default="", metavar="NAME", help="Card whose limits the prediction uses, such as A100 or "
              "RTX4090. Default: that of --results; without --arch, H200.")  # fmt: skip
@click.option("--results", "file", default="", metavar="FILE", shell_complete=complete.files,
              help="Show the measured times of FILE beside the prediction. Default: none.")  # fmt: skip
@click.option("--sass", is_flag=True, help="Also print the machine code that a thread executes.")
@output_option("registers, spills, shared memory, instructions per element and predicted times, for `cudalab compare`")
@click.option("--baseline", default="", metavar="FILE", callback=not_empty, shell_complete=complete.files,
              help="Compare with FILE, an earlier -o; the comparison sets the exit code. Default: none.")  # fmt: skip
@min_effect
@click.option("--force", is_flag=True, help="Compare even if nvcc, the card or the memory bandwidth differ.")
@table_or_json
@quiet
def command(
    kernels: tuple[str, ...], sizes: str, sass: bool, format: str, output: str, baseline: str, min_effect: float,
    force: bool, quiet: bool, **options: Any,
) -> None:  # fmt: skip
    """Explain the speed of kernels from their machine code.

    Compiles each KERNEL, reads its machine code, and follows one thread of the launch through it. Shows registers,
    spills, occupancy, the width of loads and stores, the kinds of instructions per element, and the least time that
    each unit of the card is busy. Of an entry with several launches it shows each launch, and what adds up. Needs nvcc
    and nvdisasm, but no GPU and no profiler.

    \b
    cudalab inspect gelu --dtype all
    cudalab inspect gelu --dtype bfloat16 --results bench/results/h200/gelu.json
    cudalab inspect ./mine/ --card A100
    cudalab inspect ./softmax.py --card RTX4090 --only 'softmax*' --sass

    A gate for CI that needs no GPU: `inspect KERNEL -o main.json` on the main branch, `inspect KERNEL --baseline
    main.json` on the branch. A figure that grows by more than --min-effect is WORSE.

    Exit code: 0, or 2 for bad input, a kernel that does not compile (the others are shown), or a missing tool. With
    --baseline also 1 where something is WORSE, and 4 where the two are not comparable.
    """
    from cudalab.report import inspection as report
    from cudalab.tools.inspect import compilers, gate, kept

    if output:
        kept.writable(output)
    if output and baseline and os.path.realpath(output) == os.path.realpath(baseline):
        raise InputError(f"{baseline} is the baseline and would be replaced; give another file with -o")
    old = kept.load(baseline) if baseline else None
    found, bad = _inspected(kernels, sizes, options)
    new = kept.inspection_of(found, compilers.release()) if output or old else None
    if output and new:
        kept.save(new, output)
        terminal.wrote(output)
    if format == "json":
        click.echo(report.as_json(found))
    else:
        terminal.write(lambda width, color: report.render(found, width, color, sass))
    code = 0
    if old and new:
        if format != "json":
            click.echo()
        compared = gate.compare(old, new, min_effect, force)
        print_gate(compared, (baseline, output or "this code"), "table", err=format == "json")
        code = compared.exit_code
    for error in bad:
        terminal.say(f"Error: {error}")
    sys.exit(2 if bad else code)


def _inspected(
    kernels: tuple[str, ...], sizes: str, options: dict[str, Any]
) -> tuple[list[Inspected], list[CudalabError]]:
    """What is found of each kernel that can be compiled, and why the others cannot; raises if that is all of them."""
    from cudalab.engine import plan
    from cudalab.spec.sizes import parse
    from cudalab.tools import inspect

    found: list[Inspected] = []
    bad: list[CudalabError] = []
    usable = [kernel.file for kernel in plan.kernels_by_name(kernels, bad.append).values()]
    dtypes, only, skip = (options.pop(name) for name in ("dtypes", "only", "skip"))
    chosen = list(plan.with_dtypes(usable, dtypes)) if usable else []
    entries = inspect.chosen_entries([kernel for _, kernel, _ in chosen], only, skip) if chosen else {}
    for _, kernel, kinds in chosen:
        if kernel.file not in entries:
            continue
        which: dict[str, Any] = {"dtypes": [kind.name for kind in kinds], "only": entries[kernel.file]}
        try:
            for label in parse(sizes, kernel.sizes) if sizes else [""]:
                found += inspect.inspect(kernel.file, size=label, **which, **options)
        except (SpecError, CompileError) as error:
            bad.append(error)
    if not found:
        raise type(bad[0])("\n".join(map(str, bad)))
    return found, bad
