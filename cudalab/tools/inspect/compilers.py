"""nvcc and nvdisasm: where they are, and what they say about a `.cu`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from cudalab.base import advice, program, scratch, threads
from cudalab.base.errors import CompileError, Unavailable
from cudalab.base.text import visible
from cudalab.device import cuda, toolkit
from cudalab.spec import compile_options, cuda_source, entry_names
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel
from cudalab.tools.inspect import sass

TIMEOUT = 300  # seconds for one file; nvcc takes about one for a kernel of the lab


@dataclass(frozen=True)
class Resources:
    """What ptxas says about one entry: registers and bytes per thread, bytes of shared memory per block."""

    registers: int
    stack: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    shared: int = 0
    barriers: int = 0
    constant: int = 0  # bytes of constant bank 0: the parameters, and values of the driver before them


@dataclass(frozen=True)
class Compiled:
    """A `.cu` compiled for one dtype and architecture: resources and machine code of its entries, by name."""

    resources: dict[str, Resources]
    code: dict[str, sass.Code]
    text: str  # of the `.cu`


Job = tuple[Kernel, DType, str, tuple[str, ...]]  # kernel, dtype, architecture, the functions that are launched
Compiler = Callable[[Kernel, DType, str, tuple[str, ...]], Compiled]


def missing() -> str:
    """Why nothing can be inspected here, and what to type; "" if nvcc and nvdisasm are there."""
    return toolkit.no_nvcc() if not cuda.nvcc() else "" if nvdisasm() else no_nvdisasm()


def no_nvdisasm() -> str:
    """Why there is no disassembler, and what to type."""
    return f"nvdisasm is not installed; {advice.extra('inspect')}, or install the whole CUDA toolkit"


def nvdisasm() -> str | None:
    """Return the disassembler's path: on PATH, in the toolkit, or where pip installs it (its package, or Triton)."""
    folders = [Path(os.environ[name]) / "bin" for name in ("CUDA_ROOT", "CUDA_HOME") if os.environ.get(name)]
    if compiler := cuda.nvcc():
        folders.append(Path(compiler).resolve().parent)
    folders += [bin for package in _folders("nvidia") for bin in sorted(package.glob("*/bin"))]
    folders += [package / "backends" / "nvidia" / "bin" for package in _folders("triton")]
    return shutil.which("nvdisasm") or next(filter(None, (shutil.which(str(f / "nvdisasm")) for f in folders)), None)


def release() -> str:
    """The release of nvcc, such as 13.0; "unknown" where it does not tell."""
    compiler = cuda.nvcc()
    said = _run([compiler, "--version"], Path(os.sep)).stdout if compiler else ""
    found = re.search(r"release ([\d.]+)", said)
    return found[1] if found else "unknown"


def _folders(package: str) -> list[Path]:
    """Where a package is installed; does not import it."""
    found = find_spec(package)
    return [Path(place) for place in (found.submodule_search_locations or ())] if found else []


def compiled(kernel: Kernel, dtype: DType, architecture: str, launched: tuple[str, ...] = ()) -> Compiled:
    """The kernel compiled for an architecture such as sm_90. Raises what `listings` raises.

    `launched`: the functions that are launched, as far as they are not the entries themselves.
    """
    return read(*listings(kernel, dtype, architecture, launched))


def listings(
    kernel: Kernel, dtype: DType, architecture: str, launched: tuple[str, ...] = ()
) -> tuple[str, str, str]:  # fmt: skip
    """What ptxas says, the disassembly, and the text of the `.cu`.

    The options are those of the `pycuda` backend and -lineinfo, which adds source lines and does not change the code.
    Raises CompileError with the compiler's lines, and Unavailable if a tool is missing.
    """
    compiler, disassembler = cuda.nvcc(), nvdisasm()
    if not compiler or not disassembler:
        raise Unavailable(f"cannot inspect: {missing()}")
    with scratch.folder("inspect-") as place:
        given, made = place / kernel.cu.name, place / "out.cubin"
        text = cuda_source.read(kernel.cu)
        names = entry_names.in_all(text, kernel.entries, launched)
        given.write_text(entry_names.source(text, kernel.cu.name, names), encoding="utf-8")
        macros = [f"-D{name}={value}" for name, value in kernel.macros(dtype).items()]
        options = [*kernel.flags, *macros, f"-I{kernel.cu.parent}", "-lineinfo", "--resource-usage"]
        done = _run([compiler, "--cubin", "-arch", architecture, *options, given.name, "-o", made.name], place)
        if done.returncode:
            said = visible(done.stderr.strip(), keep="\n")
            lacking = compile_options.advice(said, cuda_source.blank_comments(text), kernel.flags)
            raise CompileError(f"{kernel.cu.name} does not compile:\n{said}{lacking}")
        listed = _run([disassembler, "-g", made.name], place)
        if listed.returncode:
            said = visible((listed.stderr or listed.stdout).strip()[:300])
            raise Unavailable(f"{disassembler} cannot read what nvcc made: {said}; update one of them")
    return done.stderr + done.stdout, listed.stdout, text


def read(said: str, listing: str, text: str) -> Compiled:
    """The result of `listings` as records."""
    return Compiled(resources(said), sass.parse(listing), text)


def compiled_once(jobs: Sequence[Job], compiler: Compiler) -> Iterator[Compiled]:
    """Yield the code for each job, in order; jobs that differ in the entry alone share one compilation."""
    keys = [(kind, arch, launched, tuple(kernel.parameters.items())) for kernel, kind, arch, launched in jobs]
    wanted = dict(zip(keys, jobs, strict=True))
    with ThreadPoolExecutor(min(len(wanted), threads.cores())) as pool:
        made = dict(zip(wanted, pool.map(lambda job: compiler(*job), wanted.values()), strict=True))
    return (made[key] for key in keys)


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    options = {"cwd": folder, "text": True, "errors": "replace", "env": scratch.environment()}
    return program.run(command, TIMEOUT, **options)


_ENTRY = re.compile(r"Compiling entry function '([^']+)' for '[^']+'")
_NUMBERS = {
    "registers": r"Used (\d+) registers",
    "stack": r"(\d+) bytes stack frame",
    "spill_stores": r"(\d+) bytes spill stores",
    "spill_loads": r"(\d+) bytes spill loads",
    "shared": r"(\d+) bytes smem",
    "barriers": r"used (\d+) barriers",
    "constant": r"(\d+) bytes cmem\[0\]",
}


def resources(said: str) -> dict[str, Resources]:
    """What ptxas says about each entry, by name."""
    _, *parts = _ENTRY.split(said)
    found = {}
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        matches = {field: re.search(pattern, text) for field, pattern in _NUMBERS.items()}
        found[name] = Resources(**{field: int(m[1]) if m else 0 for field, m in matches.items()})
    return found
