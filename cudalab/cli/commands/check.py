from __future__ import annotations

import sys
from typing import Any

import click

from cudalab.cli import complete
from cudalab.cli.options import choosing
from cudalab.cli.work import exit_code, measured


@click.command("check")
@choosing
@click.option("--sizes", default="", metavar="LIST", shell_complete=complete.sizes,
              help="Check these sizes alone; see `bench --help`.")  # fmt: skip
@click.option("--sanitize", is_flag=True, help="Also watch each entry: compute-sanitizer; on the CPU the compiler's.")
@click.option("--exhaustive", is_flag=True, help="All 2^32 values of float32 functions of one array: minutes on a GPU.")
def command(format: str, output: str | None, kernels: tuple[str, ...], **options: Any) -> None:
    """Compare kernels with float64, without timing them.

    A KERNEL is a name from `cudalab list` or the path of your own spec; with none given, all kernels of the lab are
    checked, on every backend.

    Looks at all 65,536 values of float16 and bfloat16 functions of one array, at 2^24 values of float32 that miss no
    exponent, at the smallest size, at awkward shapes, and at arrays 1, 2, 4 and 8 bytes off their alignment. Shows the
    largest error in ULP, where it is, and the share that is correctly rounded.

    \b
    cudalab check gelu --dtypes bfloat16
    cudalab check gelu --dtypes float32 --exhaustive
    cudalab check ./mine/softmax.py

    Exit code: 0 all right, 1 a wrong answer, 2 bad input or a kernel that does not compile or run.
    """
    import cudalab

    options["dtypes"] = options["dtypes"] or "all"
    sys.exit(exit_code(measured(cudalab.check, kernels, options, format, output)))
