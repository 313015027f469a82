"""Asks nvcc whether a `.cu` is right CUDA, where the CPU cannot run it. Needs no GPU."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from functools import cache
from pathlib import Path
from time import perf_counter

import msgspec

from cudalab.base import files, scratch
from cudalab.base.cache import folder
from cudalab.base.text import visible
from cudalab.device import cuda
from cudalab.spec import cuda_source, entry_names
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel

# From new to old. The `a` allows what later architectures lack, such as wgmma of sm_90a.
TARGETS = ("sm_120a", "sm_100a", "sm_90a", "sm_89", "sm_80", "sm_75")
TIMEOUT = 300  # seconds for one file and architecture; nvcc takes about two for a kernel of the lab
PROBE = "__global__ void probe() {}\n"
NO_NVCC = "nvcc is not on PATH; install the CUDA toolkit, or add its bin folder to PATH"
LONGEST = 4000  # characters of nvcc's message that are kept
_SCRATCH = re.compile(r"^ptxas \S*[/\\]", re.MULTILINE)
_ERROR = re.compile(r"\berror\b")


class Verdict(msgspec.Struct, frozen=True):
    """`architecture` that nvcc compiled a file for, or its `error`, or why it cannot be asked (`missing`)."""

    architecture: str = ""
    error: str = ""
    missing: str = ""
    seconds: float = 0.0


def verdict(kernel: Kernel, dtype: DType) -> Verdict:
    """What nvcc says of a kernel's `.cu` for one element type; kept in the cache.

    The architecture is the newest for which the file compiles.
    """
    if not (compiler := cuda.nvcc()):
        return Verdict(missing=NO_NVCC)
    text = cuda_source.read(kernel.cu)
    text = entry_names.source(text, kernel.cu.name, entry_names.in_all(text, kernel.entries))
    macros = (*kernel.flags, *(f"-D{name}={value}" for name, value in kernel.macros(dtype).items()))
    state = os.stat(compiler)
    parts = (compiler, state.st_mtime_ns, state.st_size, text, macros, TARGETS, str(kernel.cu.parent))
    kept = folder("nvcc") / f"{hashlib.sha256(repr(parts).encode()).hexdigest()[:24]}.json"
    try:
        return msgspec.json.decode(kept.read_bytes(), type=Verdict)
    except (OSError, msgspec.DecodeError):
        found = _asked(compiler, text, kernel.cu, macros)
    if not found.missing:
        files.write(kept, msgspec.json.encode(found))
    return found


def _asked(compiler: str, text: str, cu: Path, macros: tuple[str, ...]) -> Verdict:
    start, refusals = perf_counter(), list[str]()
    for target in TARGETS:
        refused = _refusal(compiler, text, cu.name, (*macros, f"-I{cu.parent}"), target)
        if refused is None:
            return Verdict(target, seconds=perf_counter() - start)
        if "Unsupported gpu architecture" in refused:  # nvcc is older, or newer
            continue
        if refused in refusals:  # not a matter of the architecture
            break
        refusals.append(refused)
    if broken := _broken(compiler):
        return Verdict(missing=f"nvcc does not work here: {broken}")
    if not refusals:
        return Verdict(missing=f"nvcc knows none of {', '.join(TARGETS)}")
    return Verdict(error=min(refusals, key=lambda text: len(_ERROR.findall(text))), seconds=perf_counter() - start)


@cache
def _broken(compiler: str) -> str:
    """The last line of what nvcc says of a kernel that is right, as where it lacks a host compiler; else ""."""
    said = _refusal(compiler, PROBE, "probe.cu", (), "sm_80")
    return "" if said is None else (said.splitlines() or ["it says nothing"])[-1]


def _refusal(compiler: str, text: str, name: str, options: tuple[str, ...], target: str) -> str | None:
    """nvcc's message, or None if it compiles `text`."""
    with scratch.folder("nvcc-") as place:
        Path(place, name).write_text(text, encoding="utf-8")
        command = [compiler, "--cubin", "-w", "-arch", target, *cuda.FLAGS, *options, name, "-o", "out.cubin"]
        try:
            done = subprocess.run(
                command, cwd=place, capture_output=True, text=True, errors="replace", check=False, timeout=TIMEOUT
            )
        except subprocess.TimeoutExpired:
            return f"nvcc has not ended within {TIMEOUT} s"
        except OSError as error:
            return f"{compiler} does not run: {error.strerror}"
    said = _SCRATCH.sub("ptxas ", (done.stderr + done.stdout).replace(f"{place}{os.sep}", ""))
    said = re.sub(r"tmpxft_\w+-\d+_", "", said).strip()
    return visible(said, keep="\n")[:LONGEST] if done.returncode else None
