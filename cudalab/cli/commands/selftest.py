from __future__ import annotations

import sys

import click


@click.command("selftest")
@click.option("--device", default="auto", show_default=True, metavar="auto|cuda[:N]|cpu")
@click.option("--seconds", default=10.0, show_default=True, metavar="SECONDS",
              help="Of comparing equal work with itself; the other checks take a few more.")  # fmt: skip
def command(device: str, seconds: float) -> None:
    """Whether this machine's times can be believed: the lab times what it knows already.

    Work of known length and bytes, a launch on the wrong stream, a capture of nothing, naive timing, and equal work
    compared with itself. Ends in a verdict, and in the smallest difference that this machine can claim.

    \b
    cudalab selftest
    cudalab selftest --device cuda:1 --seconds 60

    Exit code: 0 fit to measure, 1 not fit, 2 no such device.
    """
    from cudalab import selftest as lab

    report = lab.selftest(device, seconds, show=click.echo)
    click.echo(report.sentence())
    sys.exit(0 if report.fit else 1)
