from __future__ import annotations

import sys

import click

from cudalab.cli import options as shared
from cudalab.cli import terminal

INDENT = 9  # columns before the text: a finding's state


@click.command("selftest")
@shared.device
@click.option("--seconds", default=10.0, show_default=True, metavar="SECONDS",
              help="Time to compare equal work with itself; the other checks take a few seconds more.")  # fmt: skip
@shared.quiet
def command(device: str, seconds: float, quiet: bool) -> None:
    """Test whether this machine measures times correctly.

    Times work whose result is known: work of known duration and bytes, a launch on the wrong stream, an empty graph
    capture, naive timing, and equal work compared with itself. Prints a verdict and the smallest difference that this
    machine can show.

    \b
    cudalab selftest
    cudalab selftest --device cuda:1 --seconds 60

    Exit code: 0 the machine is fit to measure, 1 it is not, 2 no such device.
    """
    from cudalab.cli.live import status_line
    from cudalab.tools import selftest as lab

    with status_line(quiet) as now:

        def show(finding: lab.Finding) -> None:
            now("")
            for line in str(finding).splitlines():
                click.echo(terminal.encodable(terminal.wrapped(line, INDENT), sys.stdout))

        report = lab.selftest(device, seconds, show, lambda name: now(f"now: {name}"))
    for text in filter(None, (report.busy, report.sentence())):
        click.echo(terminal.encodable(terminal.wrapped(text, 0), sys.stdout))
    sys.exit(0 if report.fit else 1)
