"""The command line: parse, call one function, print. No logic lives here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from cudalab.errors import CudalabError

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
            raise Failure(str(error)) from None


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
)


@main.command()
@choosing
@click.option("--sizes", default="small,large", show_default=True, metavar="LIST",
              help="Names, 64K, 1M, 2^20, 4096x4096, 2^[10:24:2].")  # fmt: skip
@click.option("--modes", default="launch,graph", show_default=True, metavar="LIST", help="Of launch, graph.")
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

    _run(runner.bench, kernels, options, format, output)


@main.command()
@choosing
@click.option("--sizes", default="", metavar="LIST", help="Check these sizes alone; see `bench --help`.")
def check(format: str, output: str | None, kernels: tuple[str, ...], **options: Any) -> None:
    """Compare each KERNEL with float64, on every backend, without timing it.

    Looks at awkward shapes, at the smallest size and, for float16 and bfloat16 functions of one array, at all
    65,536 values. Shows the largest error in ULP, where it is, and the share that is correctly rounded.

    \b
    cudalab check gelu --dtypes bfloat16
    cudalab check ./mine/softmax.py

    Exit code: 0 all right, 1 a wrong answer, 2 bad input or a kernel that does not compile or run.
    """
    from cudalab import runner

    options["dtypes"] = options["dtypes"] or "all"
    _run(runner.check, kernels, options, format, output)


def _run(work: Callable[..., Results], kernels: tuple[str, ...], options: dict[str, Any],
         format: str, output: str | None) -> None:  # fmt: skip
    from cudalab import results

    if output:
        results.writable(output)
    with _progress() as progress:
        run = work(*kernels, **options, progress=progress)
    if output:
        _save(run, output)
    _print(run, format)
    status = {case.status for case in run.cases}
    sys.exit(2 if results.ERROR in status else 1 if results.WRONG in status else 0)


@main.command()
@click.argument("file")
@click.option("--format", default="table", show_default=True, type=click.Choice(FORMATS))
def show(file: str, format: str) -> None:
    """Print the results in FILE, as `bench` or `check` wrote them.

    \b
    cudalab show results.json --format markdown
    """
    from cudalab import results

    _print(results.load(file), format)


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
        click.echo(f"{label:25}{mark}{text}".rstrip())


def _save(run: Results, output: str) -> None:
    """Write the results; if that fails after all, keep them elsewhere and say where."""
    import tempfile

    try:
        run.save(output)
    except OSError as error:
        with tempfile.NamedTemporaryFile(prefix="cudalab-", suffix=".json", delete=False) as kept:
            run.save(kept.name)
        click.echo(f"Error: cannot write {output}: {error.strerror}; the results are in {kept.name}", err=True)


def _print(run: Results, format: str) -> None:
    """The results on standard output: as wide as the terminal, in colour only there and if NO_COLOR is not set."""
    import os
    import shutil

    from cudalab import report

    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal or os.environ.get("COLUMNS") else None
    click.echo(report.render(run, format, width, terminal and not os.environ.get("NO_COLOR")))


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
