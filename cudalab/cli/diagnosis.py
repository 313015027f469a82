"""The findings of `cudalab doctor`: what works on this machine, what is missing and how to install it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from cudalab import backends, host
from cudalab.base import cache, packages, program
from cudalab.base.errors import Unavailable
from cudalab.device import cpu, cuda, driver, nvcc, nvml, toolkit
from cudalab.engine.cross_check import nvbench
from cudalab.engine.messages import PROCESSES, UP_TO
from cudalab.tools.inspect import compilers
from cudalab.tools.profile import ncu
from cudalab.tools.sanitize import compute
from cudalab.tools.tune import tune

Finding = tuple[str, str, str]  # name; "ready", "missing" or ""; details or the reason
BACKEND = re.compile(r"(?P<name>\w+) \((?P<device>cpu|cuda)\)")  # the name of a backend's finding


def findings() -> Iterator[Finding]:
    """Yield the findings about the machine, the tools, and then every backend. Nothing raises."""
    no_gpu, no_compiler = cuda.missing(), host.compiler_missing()
    yield "CPU", "", cpu.cpu_name()
    yield _finding("GPU", no_gpu, "" if no_gpu else _gpus())
    compiler = cuda.nvcc()
    no_nvcc = "" if compiler else toolkit.no_nvcc()
    yield _asked("nvcc", no_nvcc, lambda: _version(compiler or ""))
    yield _asked("host compiler", no_compiler, host.compiler_version)
    yield "cache", *_cache()
    device = "cpu" if no_gpu else "cuda"
    count = f"{PROCESSES[device]} to {UP_TO[device]} processes" if UP_TO[device] > 1 else "1 process"
    yield "processes", "", f"{count} for a timed run, unless you give --processes N"
    yield "versions", "", ", ".join(f"{name} {version}" for name, version in packages.versions().items())
    yield from _tools()
    for name, backend in backends.by_name().items():
        for device in backend.devices:
            reason = "needs a GPU" if device == "cuda" and no_gpu else backends.missing(backend, device)
            yield _finding(f"{name} ({device})", reason)


def folded(found: Iterable[Finding]) -> list[Finding]:
    """The findings, where backends of one device that have the same state for the same reason share a line."""
    lines: list[Finding] = []
    together: dict[Finding, list[str]] = {}
    for name, state, text in found:
        backend = BACKEND.fullmatch(name)
        if backend is None:
            lines.append((name, state, text))
        else:
            together.setdefault((f"backends ({backend['device']})", state, text), []).append(backend["name"])
    lines += [
        (label, state, ": ".join(filter(None, (", ".join(names), text))))
        for (label, state, text), names in together.items()
    ]
    return lines


def possible(found: Iterable[Finding]) -> str:
    """What the user can do now, in one sentence."""
    ready = {name for name, state, _ in found if state == "ready"}
    if {"pycuda (cuda)", "cupy_raw (cuda)"} & ready:
        return "you can now check and time kernels on the GPU: cudalab bench gelu"
    can = []
    if "host compiler" in ready:
        can.append("check a .cu on the CPU (cudalab check gelu)")
    can.append("time NumPy and PyTorch (cudalab bench gelu)" if "torch_eager (cpu)" in ready else "time NumPy")
    if {"nvcc", "nvdisasm"} <= ready:
        can.append("see what bounds a .cu on an H200 (cudalab inspect gelu)")
    return f"you can now {', '.join(can)}; times of a .cu need a GPU, and PyCUDA or CuPy"


def _finding(name: str, reason: str | None, details: str = "") -> Finding:
    """Return the finding: missing if there is a reason, else ready."""
    return name, "missing" if reason else "ready", reason or details


def _asked(name: str, reason: str | None, details: Callable[[], str]) -> Finding:
    """Return the finding about a program that is asked for details; missing too if it does not answer."""
    try:
        return _finding(name, reason, "" if reason else details())
    except Unavailable as error:
        return _finding(name, str(error))


def _tools() -> Iterator[Finding]:
    """Yield the findings about the tools that single commands need."""
    lacking = {
        "nvdisasm": ("inspect", "" if compilers.nvdisasm() else compilers.no_nvdisasm()),
        "NVML": ("bench", nvml.missing()),
        "ncu": ("profile", ncu.missing()),
        "compute-sanitizer": ("check --sanitize", compute.missing()),
        "Kernel Tuner": ("tune", tune.missing()),
        "NVBench": ("bench --cross-check nvbench", nvbench.missing()),
    }
    for name, (command, why) in lacking.items():
        yield name, "missing" if why else "ready", why or f"for `cudalab {command}`"


def _cache() -> tuple[str, str]:
    try:
        return "", str(cache.folder("."))
    except Unavailable as error:
        return "missing", str(error)


def _gpus() -> str:
    every = driver.pycuda().Device
    devices = [every(i) for i in range(every.count())]
    names = [f"cuda:{i} {d.name()} ({d.total_memory() / 2**30:.0f} GiB)" for i, d in enumerate(devices)]
    return f"{', '.join(names)}; driver {driver.release()}"


def _version(compiler: str) -> str:
    done = program.run([compiler, "--version"], text=True)
    if reason := nvcc.broken(compiler):
        raise Unavailable(f"{compiler} does not work here: {reason}")
    lines = [line for line in done.stdout.splitlines() if "release" in line]
    where = f"{compiler} (from wheels)" if toolkit.from_wheels(compiler) else compiler
    return f"{where}: {lines[-1].strip()}" if lines else where
