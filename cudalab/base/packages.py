"""The libraries that backends use: their packages, their versions, and what is said of one that does not work."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from cudalab.base.errors import message_of

PACKAGES = {
    "cudalab": ("cudalab",),
    "numpy": ("numpy",),
    "scipy": ("scipy",),
    "ml_dtypes": ("ml-dtypes",),
    "torch": ("torch",),
    "torchvision": ("torchvision",),
    "triton": ("triton",),
    "pycuda": ("pycuda",),
    "cupy": ("cupy-cuda12x", "cupy-cuda13x", "cupy"),
    "cuda-bindings": ("cuda-bindings",),
    "numba-cuda": ("numba-cuda",),
    "cuda-cccl": ("cuda-cccl",),
    "liger": ("liger-kernel",),
    "quack": ("quack-kernels",),
    "jax": ("jax",),
}
LONGEST = 300  # characters of an error's message in a row


class DoesNotWork(str):
    """Why a library that is installed cannot be used. One that is absent has a plain text."""


def broken(library: str, error: Exception, advice: str = "") -> DoesNotWork:
    """What is said of a library of PACKAGES that raises `error` where it should work: in one line, with its version."""
    found = versions().get(library, "")
    said = " ".join(message_of(error).split())
    said = said if len(said) <= LONGEST else f"{said[: LONGEST - 4]} ..."
    return DoesNotWork(f"{library}{found and ' '}{found} does not work here: {said}{advice and '; '}{advice}")


def versions() -> dict[str, str]:
    """Versions of Python and of every library that a backend uses; those not installed are left out."""
    found = {"python": platform.python_version()}
    for name, distributions in PACKAGES.items():
        for distribution in distributions:
            try:
                found[name] = version(distribution)
                break
            except PackageNotFoundError:
                continue
    return found
