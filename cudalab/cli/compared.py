"""What `compare` and `bench --baseline` have in common: the smallest effect, and how a comparison is printed."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from cudalab.base.errors import InputError
from cudalab.base.text import visible
from cudalab.cli import complete, terminal
from cudalab.cli.options import not_empty, together
from cudalab.cli.work import given, measured

if TYPE_CHECKING:
    from cudalab.results.compare import Comparison
    from cudalab.results.record import Machine

FORMATS = ("table", "markdown", "json")


class Share(click.ParamType):
    """2% or 0.02."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from cudalab.results.compare import share

        try:
            return value if isinstance(value, float) else share(value, param.opts[0] if param else "the share")
        except InputError as error:
            self.fail(str(error), param, ctx)


min_effect = click.option("--min-effect", default="2%", show_default=True, metavar="SHARE", type=Share(),
                          help="In a comparison, a smaller difference is no news, however sure.")  # fmt: skip


# Of `bench`.
gate = together(
    click.option(
        "--baseline",
        default="",
        metavar="FILE",
        help="Compare with the results in FILE and gate on that.",
        shell_complete=complete.files,
        callback=not_empty,
    ),
    min_effect,
    click.option("--force", is_flag=True, help="Compare with a baseline of another machine, version or option too."),
)


def against(baseline: str, min_effect: float, force: bool, kernels: tuple[str, ...], options: dict[str, Any],
            format: str, output: str | None, costs: bool) -> int:  # fmt: skip
    """Measure what the baseline has, print that and the comparison, and give the comparison's exit code."""
    from cudalab.engine import session
    from cudalab.results import comparable, compare
    from cudalab.results.baseline import adopted, refuse
    from cudalab.results.file import load

    old = load(baseline)
    for written in filter(None, (output, options["resume"])):
        if os.path.realpath(written) == os.path.realpath(baseline):
            raise InputError(f"{baseline} is the baseline and would be replaced; give another file with -o")
    if not options["resume"]:  # else everything is as it was begun
        kernels, options = adopted(old, baseline, kernels, options, given())

    def accept(machine: Machine) -> None:
        refuse([] if force else comparable.machines(old.machine, machine, [old.main_kind]), baseline)

    try:
        refuse([] if force or options["resume"] else comparable.options(old, options), baseline)
        run = measured(partial(session.bench, ready=accept), kernels, options, format, output, costs)
    except comparable.NotComparable as error:
        click.echo("Error: " + visible(str(error), keep="\n"), err=True)
        return compare.NOT_COMPARABLE
    found = compare.compare(old, run, min_effect=min_effect, force=force)
    plain = format in ("table", "markdown")  # standard output holds one document of the other formats
    printed(found, (baseline, output or "this run"), format if plain else "table", err=not plain)
    return found.exit_code


def printed(found: Comparison, names: tuple[str, str], format: str, err: bool = False) -> None:
    """The comparison on standard output, or on standard error."""
    from cudalab.report import comparison

    terminal.said(lambda width, color: comparison.render(found, names, format, width, color), err)
    if found.differences and found.refusal:
        click.echo("compare anyway with --force", err=True)
