"""Builds what PyCUDA needs to run without a GPU and prints the shell lines that switch it on.

    eval "$(python tests/fake_gpu/environment.py FOLDER)" && pytest tests/fake_gpu
    python tests/fake_gpu/environment.py FOLDER --build    # no more than what takes long

Standard library only. FOLDER keeps the stand-in libcuda.so.1 and the `nvcc` that PyCUDA will call. PyCUDA's wheel,
whose build takes over a minute, is kept in the user's cache, by its version and those of Python and CUDA. If PyCUDA or
Kernel Tuner is missing it is installed into the environment of the running interpreter. Exits with 3 and one line of
reason when this machine lacks what the build needs.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

HERE = Path(__file__).resolve().parent
PYCUDA = "2026.1"
CANNOT = 3  # exit status: this machine lacks something; any other failure is a defect


def stop(reason: str) -> NoReturn:
    print(f"no CPU stand-in for the GPU: {reason}", file=sys.stderr)
    raise SystemExit(CANNOT)


# ---- the CUDA headers ----------------------------------------------------------------------------


def toolkits() -> Iterator[Path]:
    """Folders that may hold a CUDA toolkit, the most deliberate choice first."""
    for name in ("CUDA_ROOT", "CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(name):
            yield Path(os.environ[name])
    if nvcc := shutil.which("nvcc"):
        yield from (path.resolve().parent.parent for path in (Path(nvcc), *wrapped(Path(nvcc))))
    yield from sorted(Path("/usr/local").glob("cuda*"), reverse=True)


def wrapped(nvcc: Path) -> list[Path]:
    """The compilers that `nvcc` names, if it is a shell script around the real one."""
    start = nvcc.read_bytes()[:4096]
    if not start.startswith(b"#!"):
        return []
    return [Path(os.fsdecode(match)) for match in re.findall(rb"/[^\s\"']*/nvcc\b", start)]


def find_toolkit() -> Path:
    for root in toolkits():
        if (root / "include" / "cuda.h").is_file():
            return root
    stop("no include/cuda.h of a CUDA toolkit found; set CUDA_ROOT to the toolkit's folder")


def compiler() -> list[str]:
    command = shlex.split(os.environ.get("CC", "")) or ["cc"]
    if shutil.which(command[0]) is None:
        stop(f"no C compiler {command[0]!r}; install one or set CC")
    return command


# ---- libcuda.so.1 --------------------------------------------------------------------------------


def output_of(command: Sequence[str | Path], text: str | None = None) -> str:
    """What the command prints; its own complaints go to stderr, and a failure ends this program."""
    done = subprocess.run([*map(str, command)], input=text, text=True, stdout=subprocess.PIPE)
    if done.returncode:
        raise SystemExit(f"failed with {done.returncode}: {shlex.join(map(str, command))}")
    return done.stdout


def declared(cc: list[str], include: Path) -> set[str]:
    """Every function of the driver API, under the names that macros such as cuMemAlloc stand for."""
    text = "#include <cuda.h>\n#include <cudaProfiler.h>\n"
    plain = output_of([*cc, "-E", "-P", "-x", "c", "-I", include, "-"], text)
    return set(re.findall(r"\bCUresult\s+(cu[A-Z]\w*)\s*\(", plain))


def defined(library: Path) -> set[str]:
    return set(re.findall(r" T (cu[A-Z]\w*)$", output_of(["nm", "-D", library]), re.MULTILINE))


def build_libcuda(root: Path, target: Path) -> None:
    """fakecuda.c plus a stub for each other function, so that PyCUDA's extension module finds all its symbols."""
    cc, include = compiler(), root / "include"
    flags = ["-O2", "-fPIC", "-shared", "-pthread", "-w"]
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        real, stubs, whole = (Path(folder, name) for name in ("real.so", "stubs.c", "libcuda.so.1"))
        source: list[str | Path] = ["-I", include, HERE / "fakecuda.c"]
        output_of([*cc, *flags, *source, "-o", real, "-ldl"])
        missing = sorted(declared(cc, include) - defined(real))
        body = (f"CUresult {name}(void) {{ return CUDA_ERROR_NOT_SUPPORTED; }}\n" for name in missing)
        # The enum alone: with cuda.h included, the stubs would contradict its declarations.
        stubs.write_text("typedef enum { CUDA_ERROR_NOT_SUPPORTED = 801 } CUresult;\n" + "".join(body))
        soname = "-Wl,-soname,libcuda.so.1"
        output_of([*cc, *flags, soname, *source, stubs, "-o", whole, "-ldl"])
        os.replace(whole, target)  # in one step: a running program may have the old one open


# ---- PyCUDA --------------------------------------------------------------------------------------


def pip(*arguments: str | Path, **variables: str) -> None:
    """Run pip in this interpreter's environment, its chatter on stderr: stdout is for `eval`."""
    command = [sys.executable, "-m", "pip", *map(str, arguments)]
    done = subprocess.run(command, env=os.environ | variables, stdout=sys.stderr)
    if done.returncode:
        raise SystemExit(f"failed with {done.returncode}: {shlex.join(command)}")


def kept_wheels(root: Path) -> Path:
    """The folder of wheels that are built against this version of CUDA."""
    version = re.search(r"#define CUDA_VERSION (\d+)", (root / "include" / "cuda.h").read_text())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "cudalab-tests" / f"cuda-{version[1] if version else 'unknown'}-{platform.machine()}"


def build_wheel(root: Path, libcuda: Path, folder: Path) -> Path:
    """PyCUDA from its source release, once per version, Python and CUDA (about 90 s)."""
    wheels = kept_wheels(root)
    pattern = f"pycuda-{PYCUDA}-cp{sys.version_info.major}{sys.version_info.minor}-*.whl"
    if not list(wheels.glob(pattern)):
        print(f"building PyCUDA {PYCUDA}, about 90 s, once", file=sys.stderr)
        config = str(Path(os.environ.get("XDG_CONFIG_HOME", Path.home() / ".config")))
        wheels.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=wheels) as unfinished:
            pip(
                *("wheel", "-q", "--no-deps", "--no-cache-dir", "--no-binary", "pycuda"),
                *("--wheel-dir", unfinished, f"pycuda=={PYCUDA}"),
                HOME=str(build_home(root, folder)),
                XDG_CONFIG_HOME=config,  # pip's own settings stay where they were before HOME moved
                LIBRARY_PATH=str(link_folder(libcuda, folder)),
            )
            for wheel in Path(unfinished).glob(pattern):
                os.replace(wheel, wheels / wheel.name)  # in one step: another build may run beside this one
    return next(wheels.glob(pattern))


def build_home(root: Path, folder: Path) -> Path:
    """A HOME with the file that PyCUDA's setup reads. Without it the setup guesses the toolkit from the place of
    `nvcc`, which is wrong for a wrapper, and requires cuRAND's header and library."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    settings = f"CUDA_ROOT = {str(root)!r}\nCUDA_ENABLE_CURAND = False\n"
    (home / ".aksetup-defaults.py").write_text(settings)
    return home


def link_folder(libcuda: Path, folder: Path) -> Path:
    """Where the linker finds -lcuda. It has to define the symbols: for a library without them the linker drops the
    dependency, and importing PyCUDA then fails, on a GPU machine too."""
    link = folder / "link" / "libcuda.so"
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(libcuda)
    return link.parent


def install_pycuda(root: Path, libcuda: Path, folder: Path) -> None:
    if importlib.util.find_spec("pycuda") is None:
        pip("install", "-q", build_wheel(root, libcuda, folder))


def install_kernel_tuner() -> None:
    """Install it with the packages it imports only: the others are for plots and for unused strategies."""
    if importlib.util.find_spec("kernel_tuner") is None:
        pinned = HERE.parents[1] / "constraints.txt"
        pip("install", "-q", "--no-deps", "-c", pinned, "kernel-tuner", "python-constraint2", "xmltodict")


# ---- the environment -----------------------------------------------------------------------------


def write_nvcc(target: Path) -> None:
    """The `nvcc` of PATH, bound to the interpreter that has cudalab."""
    command = shlex.join([sys.executable, str(HERE / "nvcc")])
    target.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    target.chmod(0o755)


def exports(root: Path, folder: Path) -> dict[str, str]:
    def first(variable: str, path: Path) -> str:
        rest = (p for p in os.environ.get(variable, "").split(os.pathsep) if p and p != str(path))
        return os.pathsep.join([str(path), *rest])

    return {
        "CUDALAB_FAKE_GPU": "1",
        "CUDA_ROOT": str(root),
        "LD_LIBRARY_PATH": first("LD_LIBRARY_PATH", folder / "lib"),
        "PATH": first("PATH", folder / "bin"),
        # Never the user's own cache: its entries are for a GPU, and ours would be found there.
        "PYCUDA_CACHE_DIR": str(folder / "pycuda-cache"),
    }


def main(folder: Path, build_only: bool) -> None:
    root = find_toolkit()
    for name in ("bin", "lib", "pycuda-cache"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    libcuda = folder / "lib" / "libcuda.so.1"
    build_libcuda(root, libcuda)
    if build_only:
        build_wheel(root, libcuda, folder)
        return
    write_nvcc(folder / "bin" / "nvcc")
    install_pycuda(root, libcuda, folder)
    install_kernel_tuner()
    for name, value in exports(root, folder).items():
        print(f"export {name}={shlex.quote(value)}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--build"]):
        raise SystemExit(f"usage: python {sys.argv[0]} FOLDER [--build]")
    main(Path(sys.argv[1]).resolve(), sys.argv[2:] == ["--build"])
