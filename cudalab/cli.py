"""The command line: parse, call one function, print. No logic lives here."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import click

from cudalab.errors import CudalabError
from cudalab.text import visible

if TYPE_CHECKING:
    from cudalab.results import Results

FORMATS = ("table", "markdown", "csv", "json")


class Failure(click.ClickException):
    """Bad input, said in one message."""

    exit_code = 2


class Group(click.Group):
    """Turns the lab's own errors into one clear message and exit code 2."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except CudalabError as error:
            raise Failure(visible(str(error), keep="\n")) from None
        except BrokenPipeError:
            raise  # click's affair: the reader has gone
        except OSError as error:
            raise Failure(f"{error.filename or 'standard output'}: {error.strerror}") from None


@click.group(cls=Group, context_settings={"auto_envvar_prefix": "CUDALAB", "help_option_names": ["-h", "--help"]})
@click.version_option(package_name="cudalab")
def main() -> None:
    """The lab bench for CUDA kernels written from Python.

    Is a kernel right, how fast is it, how far from what the machine allows, and does it beat PyTorch,
    TorchScript, torch.compile, CuPy and Triton?

    \b
    cudalab bench gelu --sizes small,large
    cudalab check gelu
    cudalab doctor
    """


def _options(*options: Callable[..., Any]) -> Callable[..., Any]:
    def apply(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return apply


choosing = _options(
    click.argument("kernels", nargs=-1, metavar="[KERNEL]..."),
    click.option("--dtypes", default="", metavar="LIST", help="Such as float32,bfloat16, or all."),
    click.option("--only", default="", metavar="GLOBS", help="Backends or backend:entry, such as 'torch_*,pycuda'."),
    click.option("--skip", default="", metavar="GLOBS", help="The same, to leave out."),
    click.option("--device", default="auto", show_default=True, metavar="auto|cuda[:N]|cpu"),
    click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of the random inputs."),
    click.option("--format", default="table", show_default=True, type=click.Choice(FORMATS)),
    click.option("-o", "--output", metavar="FILE", help="Also write the results, with every sample, as JSON."),
    click.option("--resume", default="", metavar="FILE", help="Finish the interrupted run in FILE, with its options."),
    click.option("--timeout", default=120.0, show_default=True, metavar="SECONDS", help="Of silence, for a variant."),
)


@main.command()
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
def bench(format: str, output: str | None, kernels: tuple[str, ...], **options: Any) -> None:
    """Check, then time each KERNEL on every backend (default: all kernels of the lab).

    A KERNEL is a name from `cudalab list` or the path of your own spec, such as ./mine/softmax.py.

    \b
    cudalab bench gelu --sizes small,large --dtypes all -o results.json
    cudalab bench ./mine/softmax.py --sizes '2^[8:12]x1024' --only 'pycuda,torch_*'

    Exit code: 0 all right, 1 a wrong answer, 2 bad input or a kernel that does not compile or run.
    """
    from cudalab import runner

    costs = options.pop("costs")
    _run(runner.bench, kernels, options, format, output, costs)


@main.command()
@choosing
@click.option("--sizes", default="", metavar="LIST", help="Check these sizes alone; see `bench --help`.")
@click.option("--sanitize", is_flag=True, help="Also watch each entry: compute-sanitizer; on the CPU the compiler's.")
@click.option("--exhaustive", is_flag=True, help="All 2^32 values of float32 functions of one array: minutes on a GPU.")
def check(format: str, output: str | None, kernels: tuple[str, ...], **options: Any) -> None:
    """Compare each KERNEL with float64, on every backend, without timing it.

    Looks at all 65,536 values of float16 and bfloat16 functions of one array, at 2^24 values of float32 that miss no
    exponent, at the smallest size, at awkward shapes, and at arrays 1, 2, 4 and 8 bytes off their alignment. Shows the
    largest error in ULP, where it is, and the share that is correctly rounded.

    \b
    cudalab check gelu --dtypes bfloat16
    cudalab check gelu --dtypes float32 --exhaustive
    cudalab check ./mine/softmax.py

    Exit code: 0 all right, 1 a wrong answer, 2 bad input or a kernel that does not compile or run.
    """
    from cudalab import runner

    options["dtypes"] = options["dtypes"] or "all"
    _run(runner.check, kernels, options, format, output)


def _run(work: Callable[..., Results], kernels: tuple[str, ...], options: dict[str, Any],
         format: str, output: str | None, costs: bool = False) -> None:  # fmt: skip
    from cudalab import results, resume

    if options["resume"]:
        kernels, options = resume.adopted(options["resume"], kernels, options, _given())
        output = output or options["resume"]
    if output:
        results.writable(output)
    try:
        with _progress() as progress:
            run = work(*kernels, **options, output=output or "", progress=progress)
    except KeyboardInterrupt as stop:
        _stopped(str(stop), output)
    if output:
        _save(run, output)
    _print(run, format, costs)
    status = {case.status for case in run.cases}
    if status == {results.SKIPPED}:
        raise Failure("nothing was checked: every variant was skipped, for the reasons above")
    sys.exit(2 if results.ERROR in status else 1 if results.WRONG in status else 0)


def _given() -> set[str]:
    """Names of the options that the user wrote, here or in the environment."""
    from click.core import ParameterSource

    context = click.get_current_context()
    return {name for name in context.params if context.get_parameter_source(name) is not ParameterSource.DEFAULT}


def _stopped(text: str, output: str | None) -> NoReturn:
    """After Ctrl-C: say what is kept and how to go on."""
    command = click.get_current_context().info_name
    if not text:
        advice = "nothing was finished"
    elif output:
        advice = f"go on with: cudalab {command} --resume {shlex.quote(output)}"
    else:
        advice = "nothing is kept without -o FILE"
    click.echo(f"{text or 'stopped'}; {advice}", err=True)
    sys.exit(130)


@main.command()
@click.argument("file")
@click.option("--format", default="table", show_default=True, type=click.Choice(FORMATS))
@click.option("--costs", is_flag=True, help="Also show what is spent once: compilation, first run, graph.")
def show(file: str, format: str, costs: bool) -> None:
    """Print the results in FILE, as `bench` or `check` wrote them.

    \b
    cudalab show results.json --format markdown
    """
    from cudalab import results

    _print(results.load(file), format, costs)


@main.command(name="list")
def list_() -> None:
    """Kernels of the lab with their entries, dtypes and sizes; then the backends."""
    from cudalab import registry

    for kernel in registry.kernels().values():
        sizes = ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in kernel.sizes.items())
        click.echo(f"{kernel.name}: {kernel.summary}")
        click.echo(f"    entries  {', '.join(kernel.entries)}")
        click.echo(f"    dtypes   {', '.join(kernel.dtypes)}")
        click.echo(f"    sizes    {sizes}")
    click.echo(f"backends: {', '.join(registry.backends())}")


@main.command()
def doctor() -> None:
    """What this machine can do: GPU, driver, nvcc, and for each backend ready, or why not and what to type."""
    from cudalab import diagnosis

    for label, state, text in diagnosis.findings():
        mark = click.style(f"{state:8}", fg={"ready": "green", "missing": "yellow"}.get(state))
        click.echo(f"{label:26}{mark}{text}".rstrip())


@main.command()
@click.option("--device", default="auto", show_default=True, metavar="auto|cuda[:N]|cpu")
@click.option("--seconds", default=10.0, show_default=True, metavar="SECONDS",
              help="Of comparing equal work with itself; the other checks take a few more.")  # fmt: skip
def selftest(device: str, seconds: float) -> None:
    """Whether this machine's times can be believed: the lab times what it knows already.

    Work of known length and bytes, a launch on the wrong stream, a capture of nothing, naive timing, and equal work
    compared with itself. Ends in a verdict, and in the smallest difference that this machine can claim.

    \b
    cudalab selftest
    cudalab selftest --device cuda:1 --seconds 60

    Exit code: 0 fit to measure, 1 not fit, 2 no such device.
    """
    from cudalab import selftest as lab

    report = lab.selftest(device, seconds, show=click.echo)
    click.echo(report.sentence())
    sys.exit(0 if report.fit else 1)


def _save(run: Results, output: str) -> None:
    """Write the results; if that fails after all, keep them elsewhere and say where."""
    import tempfile

    try:
        run.save(output)
    except OSError as error:
        with tempfile.NamedTemporaryFile(prefix="cudalab-", suffix=".json", delete=False) as kept:
            run.save(kept.name)
        click.echo(f"Error: cannot write {output}: {error.strerror}; the results are in {kept.name}", err=True)


def _print(run: Results, format: str, costs: bool = False) -> None:
    """The results on standard output: as wide as the terminal, in colour only there and if NO_COLOR is not set."""
    import os
    import shutil

    from cudalab import report

    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal or os.environ.get("COLUMNS") else None
    click.echo(report.render(run, format, width, terminal and not os.environ.get("NO_COLOR"), costs))


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """A line on standard error that says what is being done, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield lambda text: status.update(text)


if __name__ == "__main__":
    main()
