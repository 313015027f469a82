"""What `bench`, `check` and `study` share: run, save, print, and choose the exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

import click

from cudalab.base import garbage
from cudalab.base.errors import CudalabError, why
from cudalab.base.globs import split
from cudalab.base.text import visible
from cudalab.cli import screen, terminal
from cudalab.cli.live import progress_shown

if TYPE_CHECKING:
    from cudalab.engine.progress import Progress
    from cudalab.results.compare import Comparison
    from cudalab.results.record import Case, Results

PIPED = 140  # columns, if standard error is not a terminal
UNSAVED = 2  # the exit code where the file of `-o` could not be written
LOST = "cudalab.unsaved"  # in the context's notes: that this happened
DOING = {"bench": "measuring", "check": "checking", "study": "running the study"}  # by command
REASONED = ("table", "markdown")  # formats that end with the reasons why variants were skipped
LOADED = ("energy", "sustained")  # options of bench that add modes, as `cudalab.timing.clock.LOADED`
NOT_RUN = 5  # the exit code where no entry of a kernel ran


def with_modes(options: dict[str, Any], more: list[str]) -> dict[str, Any]:
    """The options of `bench` with more modes than `--modes` names."""
    return {**options, "modes": ",".join(dict.fromkeys([*split(options["modes"]), *more]))} if more else options


def measure(
    work: Callable[..., Results], kernels: tuple[str, ...], options: dict[str, Any], format: str, output: str | None,
    costs: bool = False, study: str = "", advice: bool = True, everything: bool = False,
) -> Results:  # fmt: skip
    """Run `work`, from the start or from the file of `--resume`; save and print its results.

    `study` is the name of a study, empty for kernels; without `advice` nothing is said of what to do next;
    `everything` is that of `report.render`.
    """
    return measured(work, kernels, options, format, output, costs, study, advice=advice, everything=everything)[0]


def measured(
    work: Callable[..., Results], kernels: tuple[str, ...], options: dict[str, Any], format: str, output: str | None,
    costs: bool = False, study: str = "", min_effect: float | None = None, advice: bool = True,
    everything: bool = False,
) -> tuple[Results, Comparison | None]:  # fmt: skip
    """The same as `measure`, with the comparison of `bench --against` that was printed, if there is one."""
    from cudalab.engine import process

    if terminal.is_program():
        garbage.seldom()
    quiet = options.pop("quiet", False)
    here = not any(options.get(name) for name in ("gpus", "ray", "every_gpu"))  # else actors start their workers
    with process.ahead(_ahead(kernels, options)) if here and terminal.is_program() else nullcontext():
        run, options, output = _run(work, kernels, options, output, study, quiet)
    return run, _show(run, options, format, output, costs, min_effect, quiet, advice, everything)


def _run(
    work: Callable[..., Results], kernels: tuple[str, ...], options: dict[str, Any], output: str | None, study: str,
    quiet: bool,
) -> tuple[Results, dict[str, Any], str | None]:  # fmt: skip
    """Run `work`, or continue the run in the file of `--resume`. Returns results, options, and the file for them."""
    from cudalab.engine import resume
    from cudalab.results.file import writable

    if options["resume"]:
        command = f"study {study}" if study else str(click.get_current_context().info_name)
        given = options_given()
        given |= {"modes"} if given & {*LOADED} else set()
        kernels, options = resume.adopted(options["resume"], kernels, options, given, command)
        output = output or options["resume"]
    if output:
        writable(output)
    before, here = _version(output), _folder()
    target = os.path.abspath(output) if output and here else output or ""  # a spec may go to another folder
    name = str(click.get_current_context().info_name)
    try:
        with progress_shown(quiet, _what_begins(kernels, study)) as progress:

            def told(event: Progress) -> None:
                _load_what_prints(name)  # a worker is busy meanwhile
                progress(event)

            run = work(*kernels, **options, output=target, progress=told)
        if here:
            os.chdir(here)
        return run, options, output
    except KeyboardInterrupt as stop:
        written = _version(output) != before or options["resume"] == output
        _stopped(stop, output if written else None, study, bool(output))


def _ahead(kernels: tuple[str, ...], options: dict[str, Any]) -> tuple[str, ...]:
    """What a worker that is started ahead gets: kernels, and whether a variant that is chosen may run PyTorch."""
    from cudalab.engine.start import NO_TORCH

    only = split(options.get("only") or "")
    chosen = not only or any(word[0] in "t*?[" for word in only)
    return kernels if chosen or not kernels else (NO_TORCH, *kernels)


def _folder() -> str:
    """The current folder; "" if it is gone."""
    try:
        return os.getcwd()
    except OSError:
        return ""


@cache
def _load_what_prints(command: str) -> None:
    from cudalab.cli import next_steps  # noqa: F401
    from cudalab.report import flat, markdown, table  # noqa: F401

    if command == "study":
        from cudalab.report import study_text  # noqa: F401
    if command == "bench":
        from cudalab.report import without_gpu  # noqa: F401
    if command == "check":
        from cudalab.tools.inspect import compilers  # noqa: F401


def _show(
    run: Results, options: dict[str, Any], format: str, output: str | None, costs: bool, min_effect: float | None,
    quiet: bool, advice: bool, everything: bool,
) -> Comparison | None:  # fmt: skip
    """Save and print the results, as `print_results` does. Raises CudalabError where every variant was skipped."""
    from cudalab.results import record

    saved = bool(output) and keep(run, output or "")
    found = print_results(run, format, costs, min_effect=min_effect, everything=everything)
    seed = _seed(run, options, quiet or bool(screen.given()))
    if saved and not quiet:
        terminal.wrote(output or "", f"; {seed}" if seed else "")
    elif seed:
        click.echo(seed, err=True)
    if not quiet and advice:
        _say_no_nvcc(run)
    if format == "table" and not quiet and advice and not run.of_study and not screen.given():
        from cudalab.cli import next_steps

        for line in next_steps.lines(run, output if saved else None, terminal.width(sys.stderr) or PIPED):
            click.echo(visible(line), err=True)
    if {case.status for case in run.cases} == {record.SKIPPED} and not any(case.not_on_cpu for case in run.cases):
        raise CudalabError("nothing was checked: every variant was skipped, for the reasons above")
    return found


def exit_code(run: Results, format: str = "") -> int:
    """Return 0 if all is right, 1 for a wrong answer or an impossible time, 2 for what does not compile or run.

    `Results.failed` has the rows that count. NOT_RUN is for a kernel none of whose entries ran; see `say_not_run`.
    UNSAVED is for results that are not where they were to go.
    """
    return UNSAVED if unsaved() else failure(run.failed) or (NOT_RUN if say_not_run(run, format) else 0)


def failure(broken: Sequence[Case]) -> int:
    """The exit code of broken rows: 2 if one could not run, 1 for a wrong answer or an impossible time, 0 for none."""
    from cudalab.results.record import ERROR

    return 2 if any(case.status == ERROR for case in broken) else int(bool(broken))


def say_not_run(run: Results, format: str) -> bool:
    """Print that no entry of a kernel ran, for each such kernel of whose entries some were chosen; say if there are.

    The reason is printed with it, unless `format` is one that ends with all reasons. A kernel that the CPU cannot run,
    and that nvcc has compiled, is not among them: it is printed without an error.
    """
    from cudalab.results import record

    entries: dict[str, list[Case]] = {}
    for case in run.cases if not run.of_study else ():
        if case.backend in record.ENTRIES:
            entries.setdefault(case.kernel, []).append(case)
    skipped = {name: rows[0] for name, rows in entries.items() if {row.status for row in rows} == {record.SKIPPED}}
    missed = False
    for name, row in skipped.items():
        on_cpu = [other for other in entries[name] if other.backend == "host"]
        if on_cpu and all(other.compiled for other in on_cpu):
            terminal.say(f"note: no entry of {name}.cu ran: the CPU cannot run it; nvcc compiled it without errors")
        else:
            missed = True
            said = (
                f"{row.backend} was skipped, for the reason above"
                if format in REASONED
                else f"{row.label}: {row.reason}"
            )
            terminal.say(f"Error: no entry of {name}.cu ran: {said}")
    return missed


def _what_begins(kernels: tuple[str, ...], study: str) -> str:
    """What is going to run. Without the name of a kernel that is the whole lab, which takes minutes."""
    command = str(click.get_current_context().info_name)
    if kernels or study:
        return f"{DOING[command]} {study or ', '.join(kernels)}"
    from cudalab.spec import find

    all_ = f"all {len(find.lab_names())} kernels of the lab"
    return f"{DOING[command]} {all_}: minutes; for one: cudalab {command} gelu"  # fits a terminal


def _seed(run: Results, options: dict[str, Any], quiet: bool) -> str:
    """With which seed the same inputs are made again; "" where it was given, or nobody asks."""
    from cudalab.results import record

    wrong = any(case.status == record.WRONG for case in run.cases)
    seed = run.options.get("seed")
    asked = seed is not None and options.get("seed") is None and (wrong or not quiet)
    return f"for the same inputs: --seed {seed}" if asked else ""


def _say_no_nvcc(run: Results) -> None:
    """Say what a CPU without nvcc leaves open: g++ takes code that no GPU runs."""
    from cudalab.device import cuda
    from cudalab.results import record

    ran = any(case.backend == "host" and case.status == record.OK for case in run.cases)
    if ran and run.machine.device == "cpu" and not cuda.nvcc():
        terminal.say("note: nvcc is not on PATH, so it is not known whether the .cu compiles for a GPU")


def options_given() -> set[str]:
    """Return the names of the options that the user set, on the command line or in the environment."""
    from click.core import ParameterSource

    context = click.get_current_context()
    return {name for name in context.params if context.get_parameter_source(name) is not ParameterSource.DEFAULT}


def _stopped(stop: KeyboardInterrupt, written: str | None, study: str, asked: bool) -> NoReturn:
    """After Ctrl-C, say what is saved and how to continue, and exit.

    `written` is the file if this run has written it, or continues it; `asked` whether there was to be one. The text of
    `stop` is empty if Ctrl-C came before the first group, or a second one at once.
    """
    from cudalab.cli import next_steps

    text, elsewhere = str(stop) or "stopped", getattr(stop, "elsewhere", "")
    place = elsewhere or written
    kept = _kept(place)
    if place and kept and not kept.complete:
        terminal.stopped(f"{text}; continue with:", next_steps.resuming(kept, place, study))
    elif place and kept:
        advice = f"the run in {place} is complete"
    else:
        advice = "nothing was finished" if asked or not str(stop) else "nothing was saved; to save results, add -o FILE"
    terminal.stopped(f"{text}; {advice}")


def _version(path: str | None) -> tuple[int, ...]:
    """Something that changes when the file is written; empty where there is none."""
    try:
        found = os.stat(path or "")
    except (OSError, ValueError):
        return ()
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _kept(path: str | None) -> Results | None:
    """Return the run in the file; None if there is none."""
    from cudalab.results.file import load

    try:
        return load(path) if path else None
    except CudalabError:
        return None


def keep(run: Results, output: str) -> bool:
    """Write the results; say if they are in their place.

    If that fails, they are written elsewhere, or else to standard output; the user is told where they are, and the
    command ends with UNSAVED.
    """
    from cudalab.results.file import rescue, save
    from cudalab.results.json_file import encoded

    try:
        save(run, output)
        return True
    except OSError as error:
        click.get_current_context().meta[LOST] = True
        place = rescue(run)
        where = f"the results are in {place}" if place else "no other folder is writable; the results follow as JSON"
        terminal.say(f"Error: cannot write {output}: {why(error)}; {where}")
        if not place:
            click.echo(encoded(run))
        return False


def unsaved() -> bool:
    """Whether the results of this command are not where they were to go."""
    context = click.get_current_context(silent=True)
    return context is not None and LOST in context.meta


def print_results(
    run: Results, format: str, costs: bool = False, plots: bool = False, min_effect: float | None = None,
    everything: bool = False,
) -> Comparison | None:  # fmt: skip
    """Print the results on standard output, in the width and colours of the terminal, or show them on the screen.

    The comparison of `bench --against` follows them, on standard error where they are CSV or JSON; it is returned.
    """
    from cudalab.results import against

    if format == "table" and (shown := screen.given()):
        shown.results(run)
    else:
        _print(run, format, costs, plots, everything)
    if found := against.compared(run, min_effect):
        plain = format in REASONED
        names = str(run.options.get("against", "old")), "this .cu"
        print_comparison(found, names, format if plain else "table", err=not plain)
    return found


def _print(run: Results, format: str, costs: bool, plots: bool, everything: bool) -> None:
    from cudalab import report

    color = terminal.colored(sys.stdout)
    ink = ("blocks" if terminal.draws(sys.stdout) else "ascii") if plots else ""
    text = report.render(
        run, format, terminal.width(sys.stdout), color, costs, ink, terminal.height(sys.stdout), everything
    )
    # JSON is always UTF-8: the escapes for another encoding would make it invalid
    click.echo(text.encode() if format == "json" else terminal.encodable(text, sys.stdout), color=color)


def print_comparison(found: Comparison, names: tuple[str, str], format: str, err: bool = False) -> None:
    """Print a comparison on standard output or on standard error."""
    from cudalab.report import comparison

    lines = terminal.height(sys.stderr if err else sys.stdout)
    terminal.write(lambda width, color: comparison.render(found, names, format, width, color, lines), err)
    if found.differences and found.refusal:
        click.echo("to compare anyway, add --force", err=True)
