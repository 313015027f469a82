"""What `cudalab doctor` says about a machine."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

from cudalab import backends, host
from cudalab.base import cache
from cudalab.base.errors import Unavailable
from cudalab.device import cpu, cuda, machine
from cudalab.engine import cross_check
from cudalab.tools.inspect import compilers
from cudalab.tools.profile import ncu
from cudalab.tools.sanitize import compute
from cudalab.tools.tune import tune

Finding = tuple[str, str, str]  # what, "ready" or "missing" or "", more


def findings() -> Iterator[Finding]:
    """The machine first, then every backend; nothing raises."""
    reason = cuda.missing()
    yield "CPU", "", f"{cpu.cpu_name()}"
    yield "GPU", "missing" if reason else "ready", reason or _gpus()
    compiler = cuda.nvcc()
    yield (
        "nvcc",
        "ready" if compiler else "missing",
        _version(compiler) if compiler else "not on PATH; install the CUDA toolkit",
    )
    lacking = host.compiler_missing()
    yield "host compiler", "missing" if lacking else "ready", lacking or host.compiler_version()
    yield "cache", *_cache()
    yield "versions", "", ", ".join(f"{name} {version}" for name, version in machine.versions().items())
    yield from _tools()
    for name, backend in backends.by_name().items():
        for device in backend.devices:
            lacking = "needs the GPU" if device == "cuda" and reason else backend.missing(device)
            yield f"{name} ({device})", "missing" if lacking else "ready", lacking or ""


def _tools() -> Iterator[Finding]:
    """What single commands need beside all that."""
    lacking = {
        "nvdisasm": ("inspect", "" if compilers.nvdisasm() else compilers.NO_NVDISASM),
        "ncu": ("profile", ncu.missing()),
        "compute-sanitizer": ("check --sanitize", compute.missing()),
        "Kernel Tuner": ("tune", tune.missing()),
        "NVBench": ("bench --cross-check", cross_check.missing()),
    }
    for name, (command, why) in lacking.items():
        yield name, "missing" if why else "ready", why or f"for `cudalab {command}`"


def _cache() -> tuple[str, str]:
    try:
        return "", str(cache.folder("."))
    except Unavailable as error:
        return "missing", str(error)


def _gpus() -> str:
    import pycuda.driver as driver

    driver.init()
    devices = [driver.Device(i) for i in range(driver.Device.count())]
    names = [f"cuda:{i} {d.name()} ({d.total_memory() / 2**30:.0f} GiB)" for i, d in enumerate(devices)]
    return f"{', '.join(names)}; driver {cuda.driver_release()}"


def _version(compiler: str) -> str:
    done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if "release" in line]
    return f"{compiler}: {lines[-1].strip()}" if lines else compiler
