"""What `bench`, `check` and `study` share: run, save, print, and choose the exit code."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import click

from cudalab.base.errors import CudalabError
from cudalab.cli import terminal
from cudalab.cli.live import progress_shown

if TYPE_CHECKING:
    from cudalab.results.record import Case, Results

NOT_RUN = 5  # the exit code where no entry of a kernel ran
ENTRIES = ("host", "pycuda", "cupy_raw")  # the backends that run the `.cu`


def measure(
    work: Callable[..., Results], kernels: tuple[str, ...], options: dict[str, Any], format: str, output: str | None,
    costs: bool = False, study: str = "",
) -> Results:  # fmt: skip
    """Run `work`, from the start or from the file of `--resume`; save and print its results.

    `study` is the name of a study, empty for kernels.
    """
    from cudalab.engine import resume
    from cudalab.results import record
    from cudalab.results.file import writable

    quiet = options.pop("quiet", False)
    if options["resume"]:
        command = f"study {study}" if study else str(click.get_current_context().info_name)
        kernels, options = resume.adopted(options["resume"], kernels, options, given(), command)
        output = output or options["resume"]
    if output:
        writable(output)
    try:
        with progress_shown(quiet) as progress:
            run = work(*kernels, **options, output=output or "", progress=progress)
    except KeyboardInterrupt as stop:
        _stopped(str(stop), output, study)
    saved = bool(output) and _save(run, output or "")
    print_results(run, format, costs)
    if saved:
        terminal.wrote(output or "")
    _say_seed(run, options, quiet)
    if {case.status for case in run.cases} == {record.SKIPPED}:
        raise CudalabError("nothing was checked: every variant was skipped, for the reasons above")
    return run


def exit_code(run: Results) -> int:
    """Return 0 if all is right, 1 for a wrong answer or an impossible time, 2 for what does not compile or run.

    NOT_RUN is for a kernel none of whose entries ran; the reason is printed.
    """
    from cudalab.results import record

    status = {case.status for case in run.broken}
    failed = 2 if record.ERROR in status else 1 if status & {record.WRONG, record.IMPOSSIBLE} else 0
    return failed or (NOT_RUN if say_not_run(run) else 0)


def say_not_run(run: Results) -> bool:
    """Print why no entry of a kernel ran, for each such kernel of whose entries some were chosen; say if there are."""
    from cudalab.base.text import visible
    from cudalab.results import record

    entries: dict[str, list[Case]] = {}
    for case in run.cases if not run.of_study else ():
        if case.backend in ENTRIES:
            entries.setdefault(case.kernel, []).append(case)
    skipped = {name: rows[0] for name, rows in entries.items() if {row.status for row in rows} == {record.SKIPPED}}
    for name, row in skipped.items():
        click.echo(visible(f"Error: no entry of {name}.cu ran: {row.label}: {row.reason}"), err=True)
    return bool(skipped)


def _say_seed(run: Results, options: dict[str, Any], quiet: bool) -> None:
    """Say with which seed the same inputs are made again, unless it was given."""
    from cudalab.results import record

    wrong = any(case.status == record.WRONG for case in run.cases)
    seed = run.options.get("seed")
    if seed is not None and options.get("seed") is None and (wrong or not quiet):
        click.echo(f"the same inputs again: --seed {seed}", err=True)


def given() -> set[str]:
    """Return the names of the options that the user set, on the command line or in the environment."""
    from click.core import ParameterSource

    context = click.get_current_context()
    return {name for name in context.params if context.get_parameter_source(name) is not ParameterSource.DEFAULT}


def _stopped(text: str, output: str | None, study: str) -> NoReturn:
    """After Ctrl-C, say what is saved and how to continue, and exit."""
    command = f"{click.get_current_context().info_name}{study and ' ' + shlex.quote(study)}"
    kept = _kept(output)
    if kept and output and not kept.complete:  # `text` is empty if a second Ctrl-C came at once
        advice = f"go on with: cudalab {command} --resume {shlex.quote(output)}"
    elif kept and not text:  # Ctrl-C after the last group
        advice = f"the run in {output} is complete"
    elif output or not text:
        advice = "nothing was finished"
    else:
        advice = "nothing is kept without -o FILE"
    click.echo(f"{text or 'stopped'}; {advice}", err=True)
    sys.exit(130)


def _kept(output: str | None) -> Results | None:
    """Return the run in the file; None if no group was finished, since the file is written after the first."""
    from cudalab.results.file import load

    try:
        return load(output) if output else None
    except CudalabError:
        return None


def _save(run: Results, output: str) -> bool:
    """Write the results; if that fails, write them to a temporary file, print its path, and return False."""
    import tempfile

    from cudalab.results.file import save

    try:
        save(run, output)
        return True
    except OSError as error:
        with tempfile.NamedTemporaryFile(prefix="cudalab-", suffix=".json", delete=False) as kept:
            save(run, kept.name)
        click.echo(f"Error: cannot write {output}: {error.strerror}; the results are in {kept.name}", err=True)
        return False


def print_results(run: Results, format: str, costs: bool = False, plots: bool = False) -> None:
    """Print the results on standard output, in the width and colours of the terminal."""
    from cudalab import report

    color = terminal.colored(sys.stdout)
    ink = ("blocks" if terminal.draws(sys.stdout) else "ascii") if plots else ""
    text = report.render(run, format, terminal.width(sys.stdout), color, costs, ink)
    # JSON is always UTF-8: the escapes for another encoding would make it invalid
    click.echo(text.encode() if format == "json" else terminal.encodable(text, sys.stdout), color=color)
