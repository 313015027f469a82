from __future__ import annotations

import sys
from typing import Any

import click

from cudalab.base.errors import InputError
from cudalab.cli import complete, terminal
from cudalab.cli import options as shared
from cudalab.cli.measure import exit_code, measure

LIST = "list"
study_processes = click.option("--processes", default=0, metavar="N", type=click.IntRange(0, 16),
                               help="Number of fresh processes that measure in turn. 0 means the default. "
                               "Default: 3 on a GPU, 1 on the CPU and for slow studies.")  # fmt: skip


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
@shared.size("the study's sizes for the device", dest="sizes", words=shared.OF_STUDY)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", callback=_settings,
              help="Change a setting that `study list NAME` shows; may be repeated. "
              "Default: the study's values.")  # fmt: skip
@shared.only_of(words=shared.OF_STUDY)
@shared.skip
@shared.device
@shared.seed
@shared.budget
@study_processes
@shared.quick
@shared.gpus
@shared.ray
@shared.format
@shared.output(shared.RESULTS)
@shared.resume
@shared.timeout
@shared.seconds
@shared.quiet
def command(name: str, about: str, format: str, output: str | None, **options: Any) -> None:
    """Run a study: an experiment with more than one kernel.

    `list` shows all studies, `list NAME` the sizes, settings and variants of one. A path such as ./mine.py is a study
    of your own. A study is measured as kernels are: the result of every variant is compared with that of the baseline
    before any is timed. Numbers that an article has published are shown beside those of this machine.

    \b
    cudalab study list
    cudalab study graphs --size small -o graphs.json
    cudalab study ./mine.py --set calls=100
    cudalab study graphs --size all --gpus all

    With --gpus, each size is measured on one of several GPUs, all its variants beside one another.

    Exit code: 0 every result agrees with the baseline, 1 a result differs, 2 bad input or a variant that fails.
    """
    from cudalab.report import study_text
    from cudalab.study import found
    from cudalab.study import run as runner

    if name == LIST and about:
        return terminal.write(lambda width, color: study_text.described(found.study(about), width, color))
    if name == LIST:
        return terminal.write(study_text.listed)
    if about:
        raise InputError(
            f"got two names; give one study at a time: {name}, then {about}; or: cudalab study list {about}"
        )
    work = runner.command_for(name)
    sys.exit(exit_code(measure(work, (), options, format, output, study=name), format))
