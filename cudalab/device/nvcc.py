"""Asks nvcc whether a `.cu` compiles for a GPU. Needs no GPU."""

from __future__ import annotations

import hashlib
import os
import re
from functools import cache
from pathlib import Path
from time import perf_counter

import msgspec

from cudalab.base import files, program, scratch
from cudalab.base.cache import folder
from cudalab.base.errors import Unavailable
from cudalab.base.text import visible
from cudalab.device import cuda, toolkit
from cudalab.spec import compile_options, cuda_source, entry_names
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel

# From new to old. The `a` allows what later architectures lack, such as wgmma of sm_90a.
TARGETS = ("sm_120a", "sm_100a", "sm_90a", "sm_89", "sm_80", "sm_75")
TIMEOUT = 300  # seconds for one file and architecture; nvcc takes about two for a kernel of the lab
PROBE = "__global__ void probe() {}\n"
READS = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "CPATH", "CPLUS_INCLUDE_PATH")  # what nvcc and its g++ go by
LONGEST = 4000  # characters of nvcc's message that are kept
_SCRATCH = re.compile(r"^ptxas \S*[/\\]", re.MULTILINE)
_INCLUDE = re.compile(r'#[ \t]*include\b(?![ \t]*")[ \t]*(?:<([^>\n]+)>)?')  # "" for one that is not literal
STATIC = 48 << 10  # bytes of static shared memory that every target takes
_SHARED = re.compile(r"(\d+) bytes smem")  # of ptxas -v
_STATISTICS = re.compile(r"ptxas info|\s+\d+ bytes stack frame")
_TOO_LARGE = "too much shared data"
_ERROR = re.compile(r"\berror\b")


class Verdict(msgspec.Struct, frozen=True):
    """`architecture` that nvcc compiled a file for, or its `error`, or why it cannot be asked (`missing`)."""

    architecture: str = ""
    error: str = ""
    missing: str = ""
    seconds: float = 0.0


def verdict(kernel: Kernel, dtype: DType, launched: tuple[str, ...] = ()) -> Verdict:
    """What nvcc says of a kernel's `.cu` for one element type; kept in the cache.

    The architecture is the newest for which the file compiles. `launched`: functions that launches name.
    """
    if not (compiler := cuda.nvcc()):
        return Verdict(missing=toolkit.no_nvcc())
    text = cuda_source.read(kernel.cu)
    text = entry_names.source(text, kernel.cu.name, entry_names.in_all(text, kernel.entries, launched))
    macros = (*kernel.flags, *(f"-D{name}={value}" for name, value in kernel.macros(dtype).items()))
    state = os.stat(compiler)
    around = tuple(os.environ.get(name, "") for name in READS)
    place = str(kernel.cu.parent) if _reads_more(text, kernel.cu) else ""
    parts = (compiler, state.st_mtime_ns, state.st_size, text, kernel.cu.name, macros, TARGETS, STATIC, place, around)
    kept = folder("nvcc") / f"{hashlib.sha256(repr(parts).encode()).hexdigest()[:24]}.json"
    try:
        return msgspec.json.decode(kept.read_bytes(), type=Verdict)
    except (OSError, msgspec.DecodeError):
        found = _asked(compiler, text, kernel.cu, macros)
    if found.error:
        advice = compile_options.advice(found.error, cuda_source.blank_comments(text), kernel.flags)
        found = msgspec.structs.replace(found, error=found.error + advice)
    if not found.missing:
        files.write(kept, msgspec.json.encode(found))
    return found


def _reads_more(text: str, cu: Path) -> bool:
    """Whether a `.cu` may read files of its folder of which `text` has no digest, as it has of `#include "..."`."""
    texts = [text, *(data.decode(errors="replace") for data in cuda_source.local_headers(text, cu).values())]
    named = [name for one in texts for name in _INCLUDE.findall(one)]
    return any("__has_include" in one for one in texts) or any(not n or (cu.parent / n).exists() for n in named)


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
    if reason := broken(compiler):
        return Verdict(missing=f"nvcc does not work here: {reason}")
    if not refusals:
        return Verdict(missing=f"nvcc supports none of {', '.join(TARGETS)}")
    return Verdict(error=min(refusals, key=lambda text: len(_ERROR.findall(text))), seconds=perf_counter() - start)


@cache
def broken(compiler: str) -> str:
    """The last line of what nvcc says of a kernel that is right, as where it lacks a host compiler; else ""."""
    said = _refusal(compiler, PROBE, "probe.cu", (), "sm_80")
    return "" if said is None else (said.splitlines() or ["it printed nothing"])[-1]


def _refusal(compiler: str, text: str, name: str, options: tuple[str, ...], target: str) -> str | None:
    """nvcc's message, or None if it compiles `text`."""
    with scratch.folder("nvcc-") as place:
        Path(place, name).write_text(text, encoding="utf-8")
        command = [compiler, "--cubin", "-w", "-arch", target, "-Xptxas=-v", *options, name]
        try:
            done = program.run([*command, "-o", "out.cubin"], TIMEOUT, cwd=place, text=True, errors="replace")
        except Unavailable as error:
            return str(error)
    large = any(int(size) > STATIC for size in _SHARED.findall(done.stderr))
    if not done.returncode and target.endswith("a") and large:  # those targets alone take so much
        usual = _refusal(compiler, text, name, options, target[:-1]) or ""
        errors = [line for line in usual.splitlines() if _ERROR.search(line)]
        return usual if errors and all(_TOO_LARGE in line for line in errors) else None
    said = _SCRATCH.sub("ptxas ", (done.stderr + done.stdout).replace(f"{place}{os.sep}", ""))
    said = "\n".join(line for line in said.splitlines() if not _STATISTICS.match(line))
    said = re.sub(r"tmpxft_\w+-\d+_", "", said).strip()
    return visible(said, keep="\n")[:LONGEST] if done.returncode else None
