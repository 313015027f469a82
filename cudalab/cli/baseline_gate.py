"""`bench --baseline`: measure, compare with a baseline, and print as `compare` does."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from cudalab.base.errors import InputError
from cudalab.base.text import visible
from cudalab.cli import complete, terminal
from cudalab.cli.measure import NOT_RUN, UNSAVED, given, measure, say_not_run, unsaved
from cudalab.cli.options import min_effect, not_empty, together

if TYPE_CHECKING:
    from cudalab.results.compare import Comparison
    from cudalab.results.record import Case, Machine, Results

FORMATS = ("table", "markdown", "json")

gate = together(
    click.option("--baseline", default="", metavar="FILE", callback=not_empty, shell_complete=complete.files,
                 help="Compare with the results in FILE; the comparison sets the exit code. Default: no comparison."),
    min_effect,
    click.option("--force", is_flag=True, help="Compare although machine, driver, clocks, versions or options differ."),
)  # fmt: skip


def measure_against(
    baseline: str, min_effect: float, force: bool, kernels: tuple[str, ...], options: dict[str, Any],
    format: str, output: str | None, costs: bool,
) -> int:  # fmt: skip
    """Measure the cases of the baseline, print the results and the comparison, and return its exit code."""
    from cudalab.engine import session
    from cudalab.results import comparable, compare
    from cudalab.results.baseline import adopted, refuse
    from cudalab.results.file import load

    old = load(baseline)
    for written in filter(None, (output, options["resume"])):
        if os.path.realpath(written) == os.path.realpath(baseline):
            raise InputError(f"{baseline} is the baseline and would be replaced; give another file with -o")
    if not options["resume"]:  # a resumed run keeps its own options
        kernels, options = adopted(old, baseline, kernels, options, given())

    def accept(machine: Machine) -> None:
        refuse([] if force else comparable.machines(old.machine, machine, [old.main_kind]), baseline)

    try:
        refuse([] if force or options["resume"] else comparable.options(old, options), baseline)
        run = measure(partial(session.bench, ready=accept), kernels, options, format, output, costs)
    except comparable.NotComparable as error:
        click.echo("Error: " + visible(str(error), keep="\n"), err=True)
        return compare.NOT_COMPARABLE
    found = compare.compare(old, run, min_effect=min_effect, force=force)
    plain = format in ("table", "markdown")  # CSV and JSON on standard output stay one document
    print_comparison(found, (baseline, output or "this run"), format if plain else "table", err=not plain)
    _say_not_timed(run)
    return UNSAVED if unsaved() else found.exit_code or (NOT_RUN if say_not_run(run) else 0)


def print_comparison(found: Comparison, names: tuple[str, str], format: str, err: bool = False) -> None:
    """Print the comparison on standard output or on standard error."""
    from cudalab.report import comparison

    terminal.write(lambda width, color: comparison.render(found, names, format, width, color), err)
    if found.differences and found.refusal:
        click.echo("to compare anyway, add --force", err=True)


def _say_not_timed(run: Results) -> None:
    """Say for each kernel whose entries are right and have no time that the gate says nothing about their speed."""
    from cudalab.results import record

    entries: dict[str, list[Case]] = {}
    for case in run.cases:
        if case.backend in record.ENTRIES and case.status != record.SKIPPED:
            entries.setdefault(case.kernel, []).append(case)
    for name, rows in entries.items():
        if not any(row.times for row in rows) and all(row.status == record.OK for row in rows):
            labels = ", ".join(dict.fromkeys(row.label for row in rows))
            text = f"{name}.cu: right, not timed ({labels}): the verdicts say nothing about its speed; that needs a GPU"
            click.echo(visible(text), err=True)
