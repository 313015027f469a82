from __future__ import annotations

import os
import secrets
import sys
from typing import Any, NoReturn

import click

from cudalab.cli import terminal
from cudalab.cli.measure import exit_code, measure
from cudalab.cli.options import gpus, measuring, parameters, ray

# Nothing is timed: threads of OpenBLAS and OpenMP need not keep a core busy while they wait for work.
IDLE = {"OPENBLAS_THREAD_TIMEOUT": "4", "OMP_WAIT_POLICY": "passive"}


@click.command("check")
@measuring(sizes="the values and shapes named above", dtypes="all of the spec", every="all")
@parameters
@click.option("-x", "--exit-first", is_flag=True, help="Stop where an entry of the .cu is wrong or fails first.")
@click.option("--watch", is_flag=True, help="Check again when a .cu, a header of it or a spec changes, until Ctrl-C.")
@click.option(
    "--sanitize",
    is_flag=True,
    help="Also run each entry under compute-sanitizer; on the CPU under the compiler's sanitizers.",
)
@click.option(
    "--exhaustive", is_flag=True, help="Check all 2^32 values of float32 functions of one array: minutes on a GPU."
)
@click.option(
    "--huge",
    is_flag=True,
    help="On the CPU, also check accesses to arrays of more than 2^31 and 2^32 elements; and counts beyond 2^24.",
)
@gpus
@ray
def command(format: str, output: str | None, kernels: tuple[str, ...], **options: Any) -> None:
    """Check kernels against a float64 reference, without timing.

    A KERNEL is a name from `cudalab list`, the path of your own spec, or a folder of specs. Without KERNEL, all kernels
    of the lab are checked, on every backend. Where a .cu does not compile, nothing else is run for its dtype.

    A pointwise kernel of one array is checked at all 65,536 values of float16 and bfloat16, and at 2^24 values of
    float32, of every exponent. Other kernels get zero, negative, large, tiny, tied, sorted and infinite inputs. All
    kernels are checked at the smallest size, at awkward shapes, at a size with more than 256 blocks, and with arrays 1,
    2, 4 and 8 bytes off their alignment. On the CPU, small shapes are also checked for races and for accesses outside
    the arrays. With --size, only those sizes are checked; fit is the largest that fits into memory, as in bench. The
    table shows the largest error in ULP and the share of correctly rounded results; a line below says where a right
    answer is off by more than 4 ULP.

    With --gpus, each kernel, size and dtype is checked on one of several GPUs, as in bench.

    With --watch, a round checks the entries of the .cu and NumPy first. Libraries are checked in the first round, and
    again when a Python file has changed. With --only, each round checks what that names.

    \b
    cudalab check gelu --dtype bfloat16
    cudalab check gelu --dtype float32 --exhaustive
    cudalab check ./mine/softmax.py
    cudalab check ./mine/softmax.py --watch
    cudalab check ./mine/softmax.py --only host -x
    cudalab check ./mine/ --sanitize
    cudalab check --gpus all

    Exit code: 0 the entries are right, 1 a wrong answer, 2 bad input, a kernel that does not compile or run, or an
    output file (-o) that cannot be written, 5 no entry of a kernel could run. What the CPU cannot run is skipped; if
    nvcc is there and compiles it, the code is 0.
    """
    if terminal.is_program():
        for name, value in IDLE.items():
            os.environ.setdefault(name, value)
    import cudalab

    options["dtypes"] = options["dtypes"] or "all"
    if options.pop("watch"):
        _watch(kernels, options, format, output)
    sys.exit(exit_code(measure(cudalab.check, kernels, options, format, output), format))


def _watch(kernels: tuple[str, ...], options: dict[str, Any], format: str, output: str | None) -> NoReturn:
    """Check in rounds: the entries and NumPy first, then the libraries; with --only what that names."""
    import cudalab
    from cudalab import backends
    from cudalab.base.globs import joined
    from cudalab.cli.watch import watch
    from cudalab.engine.selection import NothingLeft
    from cudalab.results.record import ENTRIES

    if not kernels:
        raise click.UsageError("--watch needs a KERNEL; give those that you edit, such as ./softmax.py")
    if options["gpus"] or options["ray"]:
        raise click.UsageError("--watch checks on one GPU; leave out --gpus and --ray")
    if output or options["resume"]:
        raise click.UsageError("--watch keeps no results; leave out -o and --resume")
    own = [*ENTRIES, "numpy"]
    others = [name for name in backends.by_name() if name not in own]
    work = cudalab.check  # imported before the forks
    seed = secrets.randbits(31) if options["seed"] is None else options["seed"]  # an edit is judged at equal inputs

    def check(skip: list[str]) -> int:
        asked = options | {"seed": seed, "skip": joined([*filter(None, [options["skip"]]), *skip])}
        return exit_code(measure(work, kernels, asked, format, output, advice=False), format)

    def round_(libraries: bool) -> int:
        if options["only"]:
            return check([])
        code = check(others)
        if libraries and code in (0, 1):
            try:
                return max(code, check(own))
            except NothingLeft:
                terminal.say("no library to check: the spec names none, or --skip leaves them out")
        if not libraries:
            terminal.say("libraries were left out: no Python file has changed since they were checked")
        return code

    watch(kernels, round_)
