from __future__ import annotations

import sys
from typing import Any

import click

from cudalab.cli import complete
from cudalab.cli.baseline_gate import gate, measure_against, measure_beside
from cudalab.cli.measure import LOADED, exit_code, measure, options_given, with_modes
from cudalab.cli.options import everything, gpus, measuring, parameters, processes, quick, ray
from cudalab.cli.predicted import bench_with_predictions


@click.command("bench")
@measuring(sizes="small,large", named="small,large", dtypes="the spec's first")
@click.option("--modes", default="launch,graph", show_default=True, metavar="LIST",
              help="Ways to time a call: launch, graph, api, energy, sustained.",
              shell_complete=complete.modes)  # fmt: skip
@click.option("--energy", is_flag=True, help="Also measure the energy of a call, mJ with an interval, by NVML's "
              "counter: 20 to 30 s for each variant. Adds energy to --modes.")  # fmt: skip
@click.option("--sustained", is_flag=True, help="Also time each variant in a burst and under load, once clock and "
              "power are steady: about 20 s for each. Adds sustained to --modes.")  # fmt: skip
@click.option(
    "--order",
    default="shuffled",
    show_default=True,
    type=click.Choice(["shuffled", "blocked"]),
    help="Order of the samples: variants shuffled in each round, or all of one variant before the next, as a "
    "cross-check.",
)
@click.option(
    "--flush",
    default="clean",
    show_default=True,
    type=click.Choice(["clean", "dirty"]),
    help="What fills L2 before a cold run: clean lines, or dirty ones, as after a program that wrote memory.",
)
@everything
@click.option("--costs", is_flag=True, help="Also show one-time costs: compilation, first run, graph.")
@click.option(
    "--fresh-caches", is_flag=True, help="Compile everything again, so that --costs shows the times without caches."
)
@click.option("--cross-check", default="", metavar="nvbench|cupti",
              help="Also time the same work by another clock: NVBench (slow), or CUPTI's records. "
              "Default: none.")  # fmt: skip
@parameters
@click.option("--budget", type=float, metavar="SECONDS",
              help="Time to sample each variant. Default: 0.3 on a GPU, 1 on the CPU.")  # fmt: skip
@processes
@quick
@gpus
@ray
@click.option(
    "--every-gpu", is_flag=True, help="Each of the GPUs measures everything; lines below the table say how they differ."
)
@gate
def command(
    format: str, output: str | None, kernels: tuple[str, ...], everything: bool, **options: Any
) -> None:  # fmt: skip
    """Check, then time kernels on every backend.

    A KERNEL is a name from `cudalab list`, the path of your own spec, such as ./mine/softmax.py, or a folder of specs.
    Without KERNEL, all kernels of the lab are measured.

    \b
    cudalab bench gelu --size small,large --dtype all -o results.json
    cudalab bench gelu --quick
    cudalab bench gelu --size xlarge --only pycuda --energy --sustained
    cudalab bench gelu --size fit
    cudalab bench ./softmax.py ./mine/ --size '2^[8:12]x1024' --only 'torch_*'
    cudalab bench --baseline main.json -o branch.json
    cudalab bench ./mine/softmax.py --against git:main
    cudalab bench gelu softmax --gpus all -o results.json

    Without a GPU the screen says what is right, what bounds each entry on an H200 (from its machine code, which needs
    nvcc and nvdisasm), and what a card measured of the lab's kernels.

    --size fit is the largest size whose run fits into 80 % of the memory, fit:0.5 into half of it: the table and the
    file name its shape, and --resume and --baseline keep it.

    With --baseline, options that you do not give (kernels of the lab, --size, --dtype, --only, --skip, --modes,
    --order, --flush) are those of the baseline; --energy and --sustained add to its modes. The output of `cudalab
    compare` follows the table.

    With --against, each entry of the .cu runs beside that of the earlier one (ENTRY @ old), under the same spec, in the
    same rounds and processes. It is SLOWER where the interval of the ratio is further from 1 than 0.1 us, at most 2 %;
    --min-effect replaces that.

    With --gpus, each kernel, size and dtype is measured on one of several GPUs, all its variants beside one another;
    the results say on which. It needs Ray, which the extra `ray` installs.

    Exit code: 0 the entries are right, 1 a wrong answer or a time below what physics allows, 2 bad input, a kernel that
    does not compile or run, or an output file (-o) that cannot be written, 5 no entry of a kernel could run. With
    --baseline or --against it is that of `cudalab compare`: 1 something slower, 3 a wrong answer, 4 not comparable.
    """
    costs = options.pop("costs")
    loads = [mode for mode in LOADED if options.pop(mode)]
    options = with_modes(options, loads)
    baseline = {name: options.pop(name) for name in ("baseline", "min_effect", "force")}
    against = bool(options["against"])
    alone = sorted(({"force"} if against else {"min_effect", "force"}) & options_given())
    if alone and not baseline["baseline"]:
        raise click.UsageError(f"--{alone[0].replace('_', '-')} is only for a comparison; add --baseline FILE")
    if against and baseline["baseline"]:
        raise click.UsageError("--against compares with a .cu and --baseline with results; give one of the two")
    if against:
        least = baseline["min_effect"] if "min_effect" in options_given() else None
        sys.exit(measure_beside(least, kernels, options, format, output, costs, everything))
    shown = {"format": format, "output": output, "costs": costs, "everything": everything}
    if baseline["baseline"]:
        sys.exit(measure_against(**baseline, loads=loads, kernels=kernels, options=options, **shown))
    run = measure(bench_with_predictions, kernels, options, **shown)
    sys.exit(exit_code(run, format))
