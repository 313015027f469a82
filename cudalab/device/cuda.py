"""Finding a GPU, and compiling a `.cu` for it through PyCUDA."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from cudalab.base import advice
from cudalab.base.cache import use_for
from cudalab.base.errors import CompileError
from cudalab.device import constants, driver, kept_data, toolkit
from cudalab.device.arrays import installed
from cudalab.device.lowered import of_names
from cudalab.spec import compile_options, cuda_source, entry_names
from cudalab.spec.card import Card
from cudalab.spec.compile_options import STANDARD
from cudalab.spec.dtype import DType
from cudalab.spec.kernel import Kernel

FLAGS = (STANDARD,)  # of code without a spec
LAB = Path(__file__).with_name("lab.cu")
SCRUB = Path(__file__).with_name("scrub.cu")  # apart: the host takes no `volatile` beside shared memory


@cache
def missing() -> str | None:
    """Why no kernel can run on a GPU here, and what to type; None if one can. Asks the driver, not a library."""
    if reason := driver.missing():
        return reason
    if not installed("pycuda"):
        return f"PyCUDA is not installed; {_pycuda_advice()}"
    try:
        import pycuda.driver  # noqa: F401
    except ImportError as error:
        return f"PyCUDA does not load: {error}; {_pycuda_advice(again=True)}"
    if not (compiler := nvcc()):
        return toolkit.no_nvcc()
    if not shutil.which("nvcc"):  # PyCUDA, CuPy and Kernel Tuner call it by its name
        os.environ["PATH"] = os.pathsep.join(filter(None, (os.environ.get("PATH"), os.path.dirname(compiler))))
    return None


def _pycuda_advice(again: bool = False) -> str:
    """What to type for PyCUDA: pip builds it where nvcc is on PATH, `cudalab toolkit` also where it is not."""
    compiler, version = nvcc(), toolkit.driver_version()
    newest = version is None or version[0] >= toolkit.MAJOR
    on_path = shutil.which("nvcc")
    if (compiler or newest) and (again or not on_path):
        wheels = "" if compiler else ", which it installs from wheels"
        return f"type: {toolkit.COMMAND} (compiles PyCUDA here, with the headers of nvcc{wheels})"
    found = (compiler and toolkit.major(compiler)) or (toolkit.MAJOR if newest else toolkit.OLDEST)
    how = advice.extra(f"cuda{found}")  # as `make` installs
    return how if on_path else f"it needs a CUDA 12 toolkit, as the driver is of CUDA 12, with nvcc on PATH; then {how}"


def nvcc() -> str | None:
    """The compiler that PyCUDA will call."""
    return toolkit.nvcc()


@cache
def card(index: int) -> Card:
    """The card of GPU number `index`, which must be there."""
    device = driver.pycuda().Device(index)
    return Card(".".join(map(str, device.compute_capability())), device.name())


def compute_capability() -> tuple[int, int] | None:
    """Return that of the first GPU, such as (9, 0); None where no kernel can run on a GPU."""
    if missing() is not None:
        return None
    major, minor = card(0).architecture.split(".")
    return int(major), int(minor)


def card_of(device: object) -> Card | None:
    """Return the card of an opened device; None for the CPU."""
    index: int | None = getattr(device, "index", None)
    return None if index is None else card(index)


def compiled(
    text: str, name: str, macros: Mapping[str, str] | None = None, include: Path | None = None,
    flags: tuple[str, ...] = (), entries: tuple[str, ...] = (),
) -> Any:  # fmt: skip
    """A PyCUDA module of `text`, compiled for the current device and loaded into the current context.

    `entries` are names in C++ to instantiate. PyCUDA keeps compiled code in the lab's cache. Raises CompileError with
    the compiler's lines.
    """
    return _compiled(text, name, tuple((macros or {}).items()), include, flags, entries, driver.current_context())


@cache
def _compiled(
    text: str, name: str, macros: tuple[tuple[str, str], ...], include: Path | None, flags: tuple[str, ...],
    entries: tuple[str, ...], context: int,
) -> Any:  # fmt: skip
    from pycuda.compiler import SourceModule

    with _compile_errors(name, text, flags):
        return SourceModule(entry_names.source(text, name, entries), **_options(macros, include, flags))


def of_kernel(kernel: Kernel, dtype: DType, launched: tuple[str, ...] = ()) -> Any:
    """The PyCUDA module of a kernel's `.cu` for one element type, as `compiled` gives it.

    `launched`: the functions that are launched, as far as they are not the entries themselves.
    """
    text, macros = cuda_source.read(kernel.cu), kernel.macros(dtype)
    names = entry_names.in_all(text, kernel.entries, launched)
    return compiled(text, kernel.cu.name, macros, kernel.cu.parent, kernel.flags, names)


def symbols_of(kernel: Kernel, dtype: DType, launched: tuple[str, ...], code: bytes | None = None) -> dict[str, str]:
    """The names in the machine code of the functions that are launched; raises CompileError.

    `code`: the machine code; None: that of `of_kernel`.
    """
    text = cuda_source.read(kernel.cu)
    names = entry_names.not_plain(text, entry_names.in_all(text, kernel.entries, launched))
    if not set(names) & set(launched):
        return {name: name for name in launched}
    found = of_names(code or _code(kernel, dtype, launched), names)
    return {name: found.get(name, name) for name in launched}


def loaded_anew(kernel: Kernel, dtype: DType, launched: tuple[str, ...] = ()) -> Any:
    """The same module, loaded once more: its `__device__` variables are as the source initialises them."""
    return driver.pycuda().module_from_buffer(_code(kernel, dtype, launched))


def constants_of(kernel: Kernel, dtype: DType, launched: tuple[str, ...]) -> constants.Watched:
    """The `__constant__` variables of the module that `of_kernel` loads."""
    text, module = cuda_source.read(kernel.cu), of_kernel(kernel, dtype, launched)
    return constants.Watched(text, _code(kernel, dtype, launched), module.get_global, driver.current_context())


def constant_bytes(kernel: Kernel, dtype: DType, launched: tuple[str, ...]) -> int:
    """Bytes of the `__constant__` variables of the kernel's code."""
    return kept_data.constant_bytes(_code(kernel, dtype, launched))


def kept_bytes(kernel: Kernel, dtype: DType, launched: tuple[str, ...] = (), code: bytes = b"") -> int:
    """Bytes that the kernel's code keeps from one launch to the next, in `__device__` variables.

    `launched` as in `of_kernel`: a template has its variables once it is instantiated. `code`: the machine code; empty:
    that of `of_kernel`.
    """
    text = cuda_source.read(kernel.cu)
    headers = b"".join(cuda_source.local_headers(text, kernel.cu).values())
    return kept_data.kept_bytes(code or _code(kernel, dtype, launched), text + headers.decode(errors="replace"))


@contextmanager
def recorded() -> Iterator[list[bytes]]:
    """The machine code of what PyCUDA compiles inside, in order."""
    from pycuda import compiler

    found, compile_ = list[bytes](), compiler.compile

    def recording(*args: Any, **options: Any) -> bytes:
        found.append(compile_(*args, **options))
        return found[-1]

    compiler.compile = recording
    try:
        yield found
    finally:
        compiler.compile = compile_


def _code(kernel: Kernel, dtype: DType, launched: tuple[str, ...] = ()) -> bytes:
    architecture = driver.card(driver.current_context()).target
    return cubin(kernel, dtype, architecture, launched)


def cubin(kernel: Kernel, dtype: DType, architecture: str, launched: tuple[str, ...] = ()) -> bytes:
    """Return the machine code of a `.cu` for an architecture such as sm_90: the code that `of_kernel` loads."""
    text, macros = cuda_source.read(kernel.cu), tuple(kernel.macros(dtype).items())
    names = entry_names.in_all(text, kernel.entries, launched)
    return _cubin(text, kernel.cu.name, macros, kernel.cu.parent, kernel.flags, names, architecture)


@cache
def _cubin(
    text: str, name: str, macros: tuple[tuple[str, str], ...], include: Path, flags: tuple[str, ...],
    entries: tuple[str, ...], architecture: str,
) -> bytes:  # fmt: skip
    from pycuda.compiler import compile as compile_

    with _compile_errors(name, text, flags):
        return compile_(entry_names.source(text, name, entries), arch=architecture, **_options(macros, include, flags))


def _options(macros: tuple[tuple[str, str], ...], include: Path | None, flags: tuple[str, ...]) -> dict[str, Any]:
    use_for("PYCUDA_CACHE_DIR")
    options = [*(flags or FLAGS), *(f"-D{k}={v}" for k, v in macros)]
    return {"options": options, "no_extern_c": True, "include_dirs": [str(include)] if include else []}


@contextmanager
def _compile_errors(name: str, text: str, flags: tuple[str, ...]) -> Iterator[None]:
    """PyCUDA's compile error as the lab's, with the compiler's lines."""
    from pycuda.driver import CompileError as Failed

    try:
        yield
    except Failed as error:
        said = str(error.stderr or error)
        advice = compile_options.advice(said, cuda_source.blank_comments(text), flags)
        raise CompileError(f"{name} does not compile:\n{said}{advice}") from None
