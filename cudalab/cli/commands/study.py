from __future__ import annotations

import sys
from typing import Any

import click

from cudalab.base.errors import InputError
from cudalab.cli import complete, terminal
from cudalab.cli.options import FORMATS, device, not_empty, quiet
from cudalab.cli.work import exit_code, measured

LIST = "list"


def _settings(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(f"--set is {text!r}; give a name and a value, such as --set calls=100")
        found[key] = value
    return found


@click.command("study")
@click.argument("name", metavar="NAME|list", shell_complete=complete.studies)
@click.argument("about", metavar="[NAME]", required=False, default="", shell_complete=complete.studies)
@click.option("--sizes", default="", metavar="LIST", help="Of the study's, or all. Default: as the device allows.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", callback=_settings,
              help="Change a setting that `study list NAME` shows. May be repeated.")  # fmt: skip
@click.option("--only", default="", metavar="GLOBS", help="Variants, such as 'jit*,default'.")
@click.option("--skip", default="", metavar="GLOBS", help="The same, to leave out.")
@device
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of weights and random inputs.")
@click.option("--budget", default=1.0, show_default=True, metavar="SECONDS", help="Of sampling for each variant.")
@click.option("--format", default="table", show_default=True, type=click.Choice(FORMATS))
@click.option("-o", "--output", metavar="FILE", help="Also write the results, with every sample, as JSON.",
              shell_complete=complete.files, callback=not_empty)  # fmt: skip
@click.option("--resume", default="", metavar="FILE", help="Finish the interrupted run in FILE, with its options.",
              shell_complete=complete.files, callback=not_empty)  # fmt: skip
@click.option("--timeout", default=120.0, show_default=True, metavar="SECONDS", help="Of silence, for a variant.")
@quiet
def command(name: str, about: str, format: str, output: str | None, **options: Any) -> None:
    """Run a study, an experiment that is more than one kernel.

    The lab's engine measures it, as it does kernels. `list` says which there are, `list NAME` all of one: sizes,
    settings, variants. A path such as ./mine.py is a study of your own. Every variant's result is compared with the
    baseline's before any is timed; where an article has published numbers, they stand beside those of this machine.

    \b
    cudalab study list
    cudalab study graphs --sizes small -o graphs.json
    cudalab study ./mine.py --set calls=100

    Exit code: 0 all right, 1 a variant computes something else than the baseline, 2 bad input or a variant that fails.
    """
    from cudalab.report import study_text
    from cudalab.study import found
    from cudalab.study import run as runner

    if name == LIST and about:
        return terminal.said(lambda width, color: study_text.described(found.study(about), width, color))
    if name == LIST:
        return terminal.said(study_text.listed)
    if about:
        raise InputError(f"one study at a time: {name}, then {about}; or: cudalab study list {about}")
    work = runner.named(name)
    sys.exit(exit_code(measured(work, (), options, format, output, study=name)))
