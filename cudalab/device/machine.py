"""The machine, driver and library versions of a run, for its results file."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from cudalab.device.protocol import Device
from cudalab.results.record import Machine

ROOT = Path(__file__).parents[2]  # of a checkout; of an installed package it is the folder of all packages
COMMIT = "CUDALAB_COMMIT"  # says which commit it is where the checkout was copied without its history

PACKAGES = {
    "cudalab": "cudalab",
    "numpy": "numpy",
    "scipy": "scipy",
    "ml_dtypes": "ml-dtypes",
    "torch": "torch",
    "torchvision": "torchvision",
    "triton": "triton",
    "pycuda": "pycuda",
    "cupy": ("cupy-cuda12x", "cupy-cuda13x", "cupy"),
    "cuda-bindings": "cuda-bindings",
    "numba-cuda": "numba-cuda",
    "cuda-cccl": "cuda-cccl",
    "liger": "liger-kernel",
    "quack": "quack-kernels",
    "jax": "jax",
}


def versions() -> dict[str, str]:
    """Versions of Python and of every library that a backend uses; those not installed are left out."""
    found = {"python": platform.python_version()}
    for name, distributions in PACKAGES.items():
        for distribution in (distributions,) if isinstance(distributions, str) else distributions:
            try:
                found[name] = version(distribution)
                break
            except PackageNotFoundError:
                continue
    return found


def describe(device: Device) -> Machine:
    """The record of this machine for a results file."""
    system = {"system": platform.platform(terse=True), "cpu": cpu_count_and_name()}
    return Machine(device.kind, device.name, {**device.details(), **system}, versions())


def commit() -> str:
    """The commit of the lab's source, with a "+" where a file of it was changed; "" where no history is at hand."""
    if given := os.environ.get(COMMIT):
        return given
    if not (ROOT / ".git").exists():
        return ""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--", "cudalab", "kernels") else "")
    except (OSError, subprocess.CalledProcessError):  # no git, or another user's checkout
        return ""


def cpu_count_and_name() -> str:
    from cudalab.device.cpu import cpu_name

    return f"{os.cpu_count()} x {cpu_name()}"
