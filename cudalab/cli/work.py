"""What `bench` and `check` have in common: run, save, print, and say by the exit code how it went."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import click

from cudalab.base.errors import CudalabError
from cudalab.cli import terminal
from cudalab.cli.live import shown

if TYPE_CHECKING:
    from cudalab.results.record import Results


def measured(
    work: Callable[..., Results], kernels: tuple[str, ...], options: dict[str, Any], format: str, output: str | None,
    costs: bool = False, study: str = "",
) -> Results:  # fmt: skip
    """Do the work, with what `--resume` names taken into account; the results are saved and printed.

    `study`: its name, where the work is one.
    """
    from cudalab.engine import resume
    from cudalab.results import record
    from cudalab.results.file import writable

    quiet = options.pop("quiet", False)
    if options["resume"]:
        kernels, options = resume.adopted(options["resume"], kernels, options, given(), study)
        output = output or options["resume"]
    if output:
        writable(output)
    try:
        with shown(quiet) as progress:
            run = work(*kernels, **options, output=output or "", progress=progress)
    except KeyboardInterrupt as stop:
        _stopped(str(stop), output, study)
    if output:
        _save(run, output)
    printed(run, format, costs)
    if {case.status for case in run.cases} == {record.SKIPPED}:
        raise CudalabError("nothing was checked: every variant was skipped, for the reasons above")
    return run


def exit_code(run: Results) -> int:
    """0 all right, 1 a wrong answer, 2 a kernel that does not compile or run."""
    from cudalab.results import record

    status = {case.status for case in run.broken}
    return 2 if record.ERROR in status else 1 if record.WRONG in status else 0


def given() -> set[str]:
    """Names of the options that the user wrote, here or in the environment."""
    from click.core import ParameterSource

    context = click.get_current_context()
    return {name for name in context.params if context.get_parameter_source(name) is not ParameterSource.DEFAULT}


def _stopped(text: str, output: str | None, study: str) -> NoReturn:
    """After Ctrl-C: say what is kept and how to go on."""
    command = f"{click.get_current_context().info_name}{study and ' ' + shlex.quote(study)}"
    kept = _kept(output)
    if kept and output and not kept.complete:  # also where a second Ctrl-C came before `text` was made
        advice = f"go on with: cudalab {command} --resume {shlex.quote(output)}"
    elif kept and not text:  # Ctrl-C came after the last group
        advice = f"the run in {output} is whole"
    elif output or not text:
        advice = "nothing was finished"
    else:
        advice = "nothing is kept without -o FILE"
    click.echo(f"{text or 'stopped'}; {advice}", err=True)
    sys.exit(130)


def _kept(output: str | None) -> Results | None:
    """The run in the file, if there is one: before the first group is finished none is written."""
    from cudalab.results.file import load

    try:
        return load(output) if output else None
    except CudalabError:
        return None


def _save(run: Results, output: str) -> None:
    """Write the results; if that fails after all, keep them elsewhere and say where."""
    import tempfile

    from cudalab.results.file import save

    try:
        save(run, output)
    except OSError as error:
        with tempfile.NamedTemporaryFile(prefix="cudalab-", suffix=".json", delete=False) as kept:
            save(run, kept.name)
        click.echo(f"Error: cannot write {output}: {error.strerror}; the results are in {kept.name}", err=True)


def printed(run: Results, format: str, costs: bool = False, plots: bool = False) -> None:
    """The results on standard output: as wide as the terminal, in colour where it is wanted."""
    from cudalab import report

    color = terminal.colored(sys.stdout)
    ink = ("blocks" if terminal.draws(sys.stdout) else "ascii") if plots else ""
    text = report.render(run, format, terminal.width(sys.stdout), color, costs, ink)
    # JSON is UTF-8, whatever the terminal's encoding is: escapes for what that lacks would not be JSON's
    click.echo(text.encode() if format == "json" else terminal.encodable(text, sys.stdout), color=color)
