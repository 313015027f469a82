from __future__ import annotations

import sys

import click

from cudalab.cli import options as shared


@click.command("selftest")
@shared.device
@click.option("--seconds", default=10.0, show_default=True, metavar="SECONDS",
              help="Of comparing equal work with itself; the other checks take a few more.")  # fmt: skip
@shared.quiet
def command(device: str, seconds: float, quiet: bool) -> None:
    """Can this machine's times be believed?

    The lab times what it knows already: work of known length and bytes, a launch on the wrong stream, a capture of
    nothing, naive timing, and equal work compared with itself. Ends in a verdict, and in the smallest difference that
    this machine can claim.

    \b
    cudalab selftest
    cudalab selftest --device cuda:1 --seconds 60

    Exit code: 0 fit to measure, 1 not fit, 2 no such device.
    """
    from cudalab.cli.live import line
    from cudalab.tools import selftest as lab

    with line(quiet) as now:

        def show(finding: lab.Finding) -> None:
            now("")
            click.echo(finding)

        report = lab.selftest(device, seconds, show, lambda name: now(f"now: {name}"))
    click.echo(report.sentence())
    sys.exit(0 if report.fit else 1)
