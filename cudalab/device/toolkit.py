"""Where nvcc is, and which CUDA the driver is of. `make` runs this file before anything is installed.

Standard library only. nvcc is looked for on PATH, in CUDA_ROOT and CUDA_HOME, in the folder that `cudalab toolkit`
fills, and among the packages of this environment (nvidia-cuda-nvcc).
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

ANSWER = 30.0  # seconds for nvcc --version
OLDEST = 12  # the oldest version of CUDA that the lab's extras know
VARIABLES = ("CUDA_ROOT", "CUDA_HOME")
FOLDER = Path(sys.prefix, "cudalab-cuda")  # what `cudalab toolkit` fills
MAJOR = 13  # the first whose wheels have nvcc, and the newest that the lab's extras know
SIZE = "110 MB"  # to download of wheels of nvcc, its headers and CCCL
COMMAND = "cudalab toolkit"


def nvcc() -> str | None:
    """The absolute path of the compiler that PyCUDA will call; None where there is none."""
    found = given() or next(filter(None, (shutil.which(str(root / "bin" / "nvcc")) for root in wheels())), None)
    return found and os.path.abspath(found)


def given() -> str | None:
    """The nvcc on PATH, or else in CUDA_ROOT or CUDA_HOME; None where there is none."""
    roots = (os.environ[name] for name in VARIABLES if os.environ.get(name))
    places = ("nvcc", *(os.path.join(root, "bin", "nvcc") for root in roots))
    return next(filter(None, map(shutil.which, places)), None)


def major(compiler: str) -> int | None:
    """The version of CUDA that an nvcc is of, such as 13, as far as the lab's extras go; None where it says none."""
    command = [compiler, "--version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=ANSWER)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"release (\d+)\.", done.stdout)
    return min(int(found[1]), MAJOR) if found and int(found[1]) >= OLDEST else None


def wheels() -> Iterator[Path]:
    """Yield the roots of CUDA that pip has installed, such as .../site-packages/nvidia/cu13."""
    yield from sorted(FOLDER.glob("nvidia/cu*"))
    found = find_spec("nvidia")  # a namespace of many packages: nothing is imported
    for place in (found.submodule_search_locations or ()) if found else ():
        yield from sorted(Path(place).glob("cu*"))


def from_wheels(compiler: str) -> bool:
    """Whether a path of nvcc is one of `wheels`."""
    return Path(compiler).parents[1] in wheels()


def driver_version() -> tuple[int, int] | None:
    """The newest CUDA that the driver runs, such as (13, 0); None where there is no driver. Starts no driver."""
    version = ctypes.c_int()
    try:
        refused = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return None
    return None if refused else (version.value // 1000, version.value % 1000 // 10)


def no_nvcc() -> str:
    """What to say and to type where there is no nvcc."""
    said = "nvcc is not on PATH; install the CUDA toolkit and add its bin folder to PATH"
    version = driver_version()
    if version and version[0] < MAJOR:
        return f"{said} (CUDA {version[0]}, which the driver is of, has no wheel of nvcc)"
    return f"{said}, or type: {COMMAND}{'' if version else f' --cuda {MAJOR}'}, which downloads {SIZE}"


def for_make() -> str:
    """The version of CUDA to install for, and "toolkit" where `cudalab toolkit` must come first; "" for the CPU alone.

    It must where nvcc is missing or not on PATH: pip would not find it.
    """
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # what is installed does not depend on which GPUs a command may use
    version = driver_version()
    if not version or ctypes.CDLL("libcuda.so.1").cuInit(0):
        return ""
    compiler = given()
    found = major(compiler) if compiler else MAJOR if version[0] >= MAJOR else None
    return f"{found}{'' if shutil.which('nvcc') else ' toolkit'}" if found else ""


if __name__ == "__main__":
    print(for_make())
