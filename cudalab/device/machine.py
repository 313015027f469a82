"""The machine, driver and library versions of a run, for its results file."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from cudalab.base import program
from cudalab.base.errors import Unavailable
from cudalab.base.packages import versions
from cudalab.device.protocol import Device
from cudalab.results.record import Machine

ROOT = Path(__file__).parents[2]  # of a checkout; of an installed package it is the folder of all packages
COMMIT = "CUDALAB_COMMIT"  # says which commit it is where the checkout was copied without its history


def describe(device: Device) -> Machine:
    """Return the record of this machine for a results file."""
    system = {"system": platform.platform(terse=True), "cpu": cpu_count_and_name()}
    return Machine(device.kind, device.name, {**device.details(), **system}, versions())


def commit() -> str:
    """The commit of the lab's source, with a "+" where a file of it was changed; "" where no history is at hand."""
    if given := os.environ.get(COMMIT):
        return given
    if not (ROOT / ".git").exists():
        return ""

    def git(*words: str) -> str:
        done = program.run(["git", "-C", ROOT, *words], text=True)
        if done.returncode:
            raise Unavailable("another user's checkout")
        return str(done.stdout.strip())

    try:
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--", "cudalab", "kernels") else "")
    except Unavailable:  # no git, one that hangs, or another user's checkout
        return ""


def cpu_count_and_name() -> str:
    from cudalab.device.cpu import cpu_name

    return f"{os.cpu_count()} x {cpu_name()}"
