"""What a machine with a driver and no CUDA toolkit lacks: nvcc and headers from wheels, and PyCUDA built with them."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

from cudalab import host
from cudalab.base import advice, program, scratch
from cudalab.base.errors import InputError, Unavailable, why
from cudalab.device import machine, nvcc, toolkit

WHEELS = ("nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt", "nvidia-cuda-runtime", "nvidia-cuda-cccl",
          "nvidia-cuda-profiler-api")  # fmt: skip
PYCUDA = "pycuda>=2025.1.2"  # the first for CUDA 13
PIP_ENDS = 3600.0  # seconds; a download may be slow
LINES = 15  # of pip's message that are shown

UNREACHED = re.compile(  # what pip and uv say of an index that does not answer, or of a file that is cut off
    r"No matching distribution|is invalid\.$|IncompleteRead|Connection|[Pp]roxy|timed out|"
    r"[Ff]ailed to (fetch|download|extract)|error sending request|HASHES|SSLError|no versions of",
    re.MULTILINE,
)
WITHOUT_INDEX = (
    "This step changed nothing. Is the package index reachable (HTTPS_PROXY, pip's index-url)? Without a network, "
    "bring the packages in a folder: docs/install.md, under Without a network"
)
NEWEST = 99  # a minor version that is beyond all

Say = Callable[[str], object]


def install(say: Say, cuda: str = "") -> None:
    """Install nvcc and CUDA's headers where there is no nvcc, and PyCUDA where there is a driver.

    `say` gets a line before and after each step. `cuda`: the version to install, such as 13.0 or 13, also where nvcc is
    there; "" is the driver's. Raises Unavailable where something cannot be installed, InputError for another `cuda`.
    """
    driver = toolkit.driver_version()
    wanted = _version(cuda) if cuda else driver
    if wanted is None:
        raise Unavailable(
            f"no NVIDIA driver (libcuda.so.1 is not there), so no kernel can run on a GPU; for nvcc alone, which "
            f"`cudalab check` and `inspect` use, name a version: {toolkit.COMMAND} --cuda {toolkit.MAJOR}"
        )
    _need_installer()
    _need_what_compiles(bool(driver))
    compiler = toolkit.nvcc()
    broken = nvcc.broken(compiler) if compiler and not cuda else ""
    if not compiler or cuda or (broken and toolkit.from_wheels(compiler)):  # such as wheels without their headers
        compiler, broken = _nvcc(wanted, say), ""
        nvcc.broken.cache_clear()
        if reason := nvcc.broken(compiler):
            raise Unavailable(f"{compiler} does not work here: {reason}")
        if (first := toolkit.given()) and os.path.abspath(first) != compiler:
            say(f"the lab uses {first} all the same, until it is taken off PATH, CUDA_ROOT and CUDA_HOME")
    elif broken:
        raise Unavailable(
            f"{compiler} does not work here: {broken}; mend it, or take it off PATH, CUDA_ROOT and CUDA_HOME and type "
            f"{toolkit.COMMAND} again"
        )
    else:
        say(f"nvcc is there: {compiler}")
    if driver is None:
        say("PyCUDA is left out: there is no NVIDIA driver (libcuda.so.1 is not there)")
    elif _pycuda_fails():
        _pycuda(compiler, say)
    else:
        say("PyCUDA is there")


def requirements(version: tuple[int, int]) -> list[str]:
    """What pip is asked for: wheels of this version of CUDA, or the newest before it. Raises Unavailable."""
    major, minor = version
    if major < toolkit.MAJOR:
        raise Unavailable(
            f"CUDA {major}.{minor} has no wheel of nvcc (CUDA {toolkit.MAJOR} is the first that has one): install a "
            f"CUDA {major} toolkit and add its bin folder to PATH, or a driver of CUDA {toolkit.MAJOR} (580 or newer)"
        )
    end = f"{major}.{minor + 1}" if major == toolkit.MAJOR else f"{toolkit.MAJOR + 1}"  # a newer driver runs older code
    return [f"{name}>={toolkit.MAJOR},<{end}" for name in WHEELS]


def _version(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    if not text.isascii() or not major.isdigit() or not (minor or "0").isdigit():
        raise InputError(f"--cuda takes a version of CUDA, such as {toolkit.MAJOR}.0, not {text!r}")
    if int(major) > toolkit.MAJOR:
        raise InputError(f"--cuda takes a version of CUDA {toolkit.MAJOR}, the newest that the lab knows, not {text!r}")
    return int(major), int(minor) if minor else NEWEST


def _need_installer() -> None:
    """Raise Unavailable where the environment has no pip, and there is no uv."""
    first = advice.installer()[0]
    if not shutil.which(first):
        raise Unavailable(
            f"this environment has no pip, and {first} is not on PATH; type: {shlex.quote(sys.executable)} -m "
            f"ensurepip, then {toolkit.COMMAND} again"
        )


def _need_what_compiles(pycuda: bool) -> None:
    """Raise Unavailable where a compiler or Python's headers are missing: both before anything is downloaded."""
    if reason := host.compiler_missing():
        raise Unavailable(f"{reason}: nvcc and the build of PyCUDA call it")
    header = Path(sysconfig.get_paths()["include"], "Python.h")
    if pycuda and not header.is_file():
        name = f"python{sys.version_info.major}.{sys.version_info.minor}"
        raise Unavailable(
            f"PyCUDA is built here, which needs Python's headers: {header} is not there; install {name}-dev (Debian, "
            f"Ubuntu) or {name}-devel (Fedora, RHEL)"
        )


def _nvcc(version: tuple[int, int], say: Say) -> str:
    """Install the wheels into a folder of their own, which PyTorch's pins do not reach; return nvcc's path."""
    wanted, folder = requirements(version), toolkit.FOLDER
    new = folder.with_name(f"{folder.name}.new")
    with _timed(say, f"nvcc and CUDA's headers from wheels ({toolkit.SIZE} to download, 280 to 350 MB in {folder})"):
        shutil.rmtree(new, ignore_errors=True)
        try:
            new.mkdir(parents=True)  # before the download, which is for nothing where this fails
            _pip("--no-compile", "--target", str(new), *wanted)
            (root,) = new.glob("nvidia/cu*")
            _link(root)
            shutil.rmtree(folder, ignore_errors=True)
            os.replace(new, folder)
        except (OSError, ValueError) as error:
            raise Unavailable(f"cannot install nvcc into {folder}: {why(error)}; use a virtual environment") from None
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return str(folder / "nvidia" / root.name / "bin" / "nvcc")


def _link(root: Path) -> None:
    """Add the names that linkers and builds expect in a toolkit and that the wheels lack."""
    if not (root / "lib64").exists():
        (root / "lib64").symlink_to("lib")
    for library in sorted((root / "lib").glob("lib*.so.*")):
        plain = library.with_name(f"{library.name.partition('.so')[0]}.so")
        if not plain.exists():
            plain.symlink_to(library.name)


def _pycuda(compiler: str, say: Say) -> None:
    """Build PyCUDA against the toolkit of a compiler, in place of one that does not load."""
    root, include = _toolkit_of(compiler)
    with _timed(say, "PyCUDA, which is compiled here (1 to 3 minutes)"), scratch.folder("home-") as home:
        _write_home(home, root, include)
        pinned = machine.ROOT / "constraints.txt"
        limits = ("-c", str(pinned)) if advice.way() == advice.CHECKOUT and pinned.is_file() else ()
        path = os.pathsep.join((str(root / "bin"), os.environ.get("PATH", "")))
        fresh = ("--no-binary", "pycuda", *(("--no-cache",) if _uv() else ("--no-cache-dir",)))
        again = ("--force-reinstall", "--no-deps") if find_spec("pycuda") else ()
        _pip(*fresh, *again, *limits, PYCUDA, HOME=str(home), PATH=path)
    if reason := _pycuda_fails():
        raise Unavailable(f"PyCUDA was built and does not load: {reason}")


def _toolkit_of(compiler: str) -> tuple[Path, Path]:
    """The root of its toolkit and the folder of cuda.h, as nvcc says: on PATH may be a script or a link to ccache."""
    said = program.run([compiler, "--dryrun", "--cubin", "any.cu"], text=True, errors="replace").stderr
    top = re.search(r"^#\$ TOP=(.+)$", said, re.MULTILINE)
    root = Path(top[1]).resolve() if top else Path(compiler).resolve().parents[1]
    named = re.search(r"^#\$ INCLUDES=(.*)$", said, re.MULTILINE)
    places = [
        *(Path(place).resolve() for place in re.findall(r'"-I([^"]+)"', named[1] if named else "")),
        root / "include",
    ]
    for place in places:
        if (place / "cuda.h").is_file():
            return root, place
    raise Unavailable(
        f"PyCUDA is built with cuda.h, which is not in {' or '.join(map(str, places))}: install the headers of the "
        f"CUDA toolkit of {compiler}"
    )


def _write_home(home: Path, root: Path, include: Path) -> None:
    """Fill a HOME whose file tells PyCUDA's build where CUDA is; all else is what the user's has.

    The driver's library is there to link with: the wheels have no stub of it. Their cuRAND is left out (60 MB).
    """
    users = os.path.expanduser("~")
    with contextlib.suppress(OSError):  # one that is not there, or cannot be read
        for name in os.listdir(users):
            (home / name).symlink_to(Path(users, name).absolute())
    libraries = home / ".cudalab-libraries"
    libraries.mkdir()
    (libraries / "libcuda.so").symlink_to(_libcuda())
    settings = home / ".aksetup-defaults.py"
    settings.unlink(missing_ok=True)
    folders = [str(libraries), *(str(root / name) for name in ("lib64", "lib")), str(include.with_name("lib"))]
    settings.write_text(
        f"CUDA_ROOT = {str(root)!r}\nCUDA_INC_DIR = {[str(include)]!r}\n"
        f"CUDADRV_LIB_DIR = {folders!r}\nCURAND_LIB_DIR = {folders!r}\n"
        f"CUDA_ENABLE_CURAND = {(include / 'curand.h').is_file()}\n"
    )


def _libcuda() -> str:
    """The path of the driver's library, which `toolkit.driver_version` has loaded."""
    mapped = Path("/proc/self/maps").read_text().splitlines()
    return next(line.split(maxsplit=5)[5] for line in mapped if "/libcuda.so" in line)


def _pycuda_fails() -> str:
    """What Python says where it cannot import PyCUDA; "" where it can."""
    done = program.run([sys.executable, "-P" if sys.version_info >= (3, 11) else "-B", "-c", "import pycuda.driver"],
                       text=True)  # fmt: skip
    return (done.stderr.strip().splitlines() or ["it said nothing"])[-1] if done.returncode else ""


def _uv() -> bool:
    return advice.installer()[0] == "uv"


def _pip(*words: str, **environment: str) -> None:
    """Run pip's (or uv's) install. Raises Unavailable with the end of what it says."""
    command = [*advice.installer(), "-q", *words]
    with scratch.held():  # what ends this process ends pip and its build, with their temporary files
        around = scratch.environment({**os.environ, **environment})
        done = program.run(command, PIP_ENDS, text=True, errors="replace", env=around)
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()
        said = "\n".join([line for line in lines if "Retrying (Retry(" not in line][-LINES:])
        hint = f"\n{WITHOUT_INDEX}" if UNREACHED.search("\n".join(lines)) else ""
        raise Unavailable(f"this failed: {shlex.join(command)}\n{said}{hint}")


@contextlib.contextmanager
def _timed(say: Say, what: str) -> Iterator[None]:
    begun = perf_counter()
    say(f"{what} ...")
    yield
    say(f"  {perf_counter() - begun:.0f} s")
