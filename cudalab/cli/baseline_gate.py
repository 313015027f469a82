"""`bench --baseline` and `bench --against`: measure, compare, and print as `compare` does."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from cudalab.base.errors import InputError
from cudalab.cli import complete, terminal
from cudalab.cli.measure import (
    NOT_RUN,
    UNSAVED,
    measure,
    measured,
    options_given,
    print_comparison,
    say_not_run,
    unsaved,
    with_modes,
)
from cudalab.cli.options import min_effect, not_empty, together

if TYPE_CHECKING:
    from cudalab.results.record import Machine

FORMATS = ("table", "markdown", "json")

gate = together(
    click.option("--baseline", default="", metavar="FILE", callback=not_empty, shell_complete=complete.files,
                 help="Compare with the results in FILE, or in a folder's file of the kernel; the comparison sets the "
                 "exit code. Default: no comparison."),
    click.option("--against", default="", metavar="OLD.cu|git:REV", callback=not_empty, shell_complete=complete.files,
                 help="Measure an earlier .cu in the same rounds: a file, or the one at a revision; the comparison "
                 "sets the exit code. Default: none."),
    min_effect,
    click.option("--force", is_flag=True, help="Compare even if machine, driver, clocks, versions or options differ."),
)  # fmt: skip


def measure_against(
    baseline: str, min_effect: float, force: bool, loads: list[str], kernels: tuple[str, ...], options: dict[str, Any],
    format: str, output: str | None, costs: bool, everything: bool,
) -> int:  # fmt: skip
    """Measure the cases of the baseline, print the results and the comparison, and return its exit code.

    `loads`: modes beside those of the baseline, where `--modes` is not given.
    """
    from cudalab.cli.predicted import bench_with_predictions
    from cudalab.results import comparable, compare
    from cudalab.results.baseline import adopted, in_folder, refuse
    from cudalab.results.file import load

    baseline = in_folder(baseline, kernels)
    old = load(baseline)
    for written in filter(None, (output, options["resume"])):
        if os.path.realpath(written) == os.path.realpath(baseline):
            raise InputError(f"{baseline} is the baseline and would be replaced; give another file with -o")
    if not options["resume"]:  # a resumed run keeps its own options
        kernels, options = adopted(old, baseline, kernels, options, options_given())
        options = with_modes(options, loads)

    def accept(machine: Machine) -> None:
        kinds = [old.main_kind] if old.main_kind else []  # none where the CPU only checked
        refuse([] if force else comparable.machines(old.machine, machine, kinds), baseline)

    try:
        refuse([] if force or options["resume"] else comparable.options(old, options), baseline)
        work = partial(bench_with_predictions, accept=accept, baseline=old)
        run = measure(work, kernels, options, format, output, costs, everything=everything)
    except comparable.NotComparable as error:
        terminal.say(f"Error: {error}")
        return compare.NOT_COMPARABLE
    found = compare.compare(old, run, min_effect=min_effect, force=force)
    plain = format in ("table", "markdown")  # CSV and JSON on standard output stay one document
    print_comparison(found, (baseline, output or "this run"), format if plain else "table", err=not plain)
    return UNSAVED if unsaved() else found.exit_code or (NOT_RUN if say_not_run(run, format) else 0)


def measure_beside(
    min_effect: float | None, kernels: tuple[str, ...], options: dict[str, Any], format: str, output: str | None,
    costs: bool, everything: bool,
) -> int:  # fmt: skip
    """Measure entries beside those of an earlier `.cu`, print both and the comparison, and return its exit code."""
    from cudalab.cli.predicted import bench_with_predictions

    work = bench_with_predictions
    run, found = measured(work, kernels, options, format, output, costs, min_effect=min_effect, everything=everything)
    assert found  # the run refuses to begin without such entries
    return UNSAVED if unsaved() else found.exit_code or (NOT_RUN if say_not_run(run, format) else 0)
