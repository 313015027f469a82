"""The machine, driver and library versions of a run, for its results file."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from cudalab.device.protocol import Device
from cudalab.results.record import Machine

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


def cpu_count_and_name() -> str:
    import os

    from cudalab.device.cpu import cpu_name

    return f"{os.cpu_count()} x {cpu_name()}"
