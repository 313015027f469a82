"""Compile a `.cu` for the CPU, once per content, into the cache."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from cudalab.base import cache, scratch
from cudalab.base.errors import CompileError, CompilerFailed, NotOnCpu, SpecError, Unavailable
from cudalab.host import gxx, gxx_options
from cudalab.host.source import Scan, forbidden, rewrite_shared, unknown_name, without_header
from cudalab.spec import dtype_macro
from cudalab.spec.compile_options import STANDARD
from cudalab.spec.cuda_source import blank_comments

_HERE = Path(__file__).parent

# Macros that nvcc defines for device code, for code that tests them with #if. Code for sm_90 often has instructions
# that the CPU lacks, and another path for older architectures; but clusters have none there.
_PREDEFINED = {"__CUDACC__": "1", "__CUDA_ARCH__": "800", "__NVCC__": "1"}
_WITH_CLUSTERS = {**_PREDEFINED, "__CUDA_ARCH__": "900"}
_CLUSTER = re.compile("cluster", re.IGNORECASE)


class Built(NamedTuple):
    """A shared object, and the end of the names of its functions by the entry that is asked for."""

    library: Path
    entries: Mapping[str, str]
    constants: tuple[str, ...] = ()
    one_block: bool = False  # whether only one block can live at a time: a sanitized one with static shared arrays


def compile_source(
    text: str,
    *,
    name: str = "kernel.cu",
    defines: Mapping[str, str] | None = None,
    include: Path | None = None,
    sanitize: bool = False,
    races: bool = False,
    entries: Sequence[str] = (),
    standard: str = STANDARD,
) -> Built:
    """Find or make the shared object for the CUDA source `text`.

    `entries` are names in C++ (`row_sum<64, float>`) to export beside the plain ones. `name` appears in error messages,
    `defines` become `-Dkey=value`, `include` is the folder that the source's own `#include "..."` lines are relative
    to, `standard` is the option for the C++ standard. With `sanitize` it checks addresses and for undefined behaviour,
    and can only be loaded into a process that has preloaded `gxx.address_sanitizer()`.

    Raises NotOnCpu for what is refused by name, SpecError for an entry with a name that C or CUDA has taken, and
    CompileError for what g++ refuses: a mistake, or something of CUDA that the headers here lack.
    """
    missing = gxx.compiler_missing()
    if missing:
        raise CompileError(missing)
    search = [f"-I{_HERE / 'include'}"]
    if include is not None:
        include = include.absolute()
        search = [f"-iquote{include}", *search, f"-I{include}"]
    given = {**(_WITH_CLUSTERS if _CLUSTER.search(blank_comments(text)) else _PREDEFINED), **(defines or {})}
    options = [*search, *(f"-D{key}={value}" for key, value in given.items())]

    try:
        preprocessed = gxx.run([*options, standard, "-E", "-x", "c++", "-"], _numbered(name, text), name, include)
    except CompilerFailed:
        raise
    except CompileError as error:
        if lacking := without_header(str(error)):
            raise NotOnCpu(lacking) from None
        raise
    scan = Scan(preprocessed, name)
    exported = scan.exports(entries)
    if not exported:
        raise CompileError(f"{name}: no __global__ function (a template alone cannot be launched)")
    exports = ""
    for entry, (end, address) in exported.items():
        cluster = scan.cluster(entry)
        exports += f"CUDALAB_EXPORT({end}, {address})" + (f" CUDALAB_CLUSTER({end}, {cluster})\n" if cluster else "\n")
    exports += "".join(f"CUDALAB_CONSTANT({i}, {constant})\n" for i, constant in enumerate(scan.constants))
    program = _numbered(name, rewrite_shared(text)) + dtype_macro.alias(entries) + '\n#line 1 "(exports)"\n' + exports

    fibers = scan.fibers or races
    modes = [f"-D{key}={value}" for key, value in given.items() if key.startswith("CUDALAB_")]  # of the lab's tests
    modes += [f"-DCUDALAB_FIBERS={int(fibers)}", f"-DCUDALAB_SANITIZE={int(sanitize)}"]
    if races and gxx.is_clang():
        raise Unavailable("only g++ finds races")
    if races:  # these see volatile accesses, too
        modes.append("-DCUDALAB_RACES=1")
    elif scan.volatile and not sanitize:
        modes.append("-DCUDALAB_VOLATILE=1")
    checks: tuple[str, ...] = ()
    if sanitize:
        checks = (*gxx_options.SANITIZE, *(gxx_options.SANITIZE_CLANG if gxx.is_clang() else ()))
    elif races:
        checks = gxx_options.RACES
    elif scan.volatile:
        checks = (*gxx_options.WATCHED, *(gxx_options.WATCHED_CLANG if gxx.is_clang() else gxx_options.WATCHED_GCC))
    # A thread that waits without end has a line too.
    lines = ["-g"] if sanitize or races else ["-g1"] if scan.volatile or scan.waits else []
    common = [*gxx_options.FLAGS, *gxx.poison(races), *checks, *modes]
    contends = scan.contends and fibers and not sanitize
    own = [
        standard,
        f"-DCUDALAB_CONTENDS={int(contends)}",
        *([gxx_options.DWARF, *lines] if lines else []),
    ]  # the runtime is the same
    runtime = [*common, STANDARD, *(["-O2"] if races else [])]  # the lab's own code, which follows each access
    flags = [*common, *own, *gxx_options.LINK]
    libraries = [*gxx_options.LIBRARIES, *([str(gxx.address_sanitizer())] if sanitize else [])]
    # The preprocessed text covers everything that the source includes. Folders are left out: the same
    # kernel in two checkouts is one entry of the cache.
    parts = (
        gxx.version(),
        _headers(),
        repr((flags, libraries)),
        repr(given),
        preprocessed,
        program,
    )
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
    library = cache.folder("host") / f"{digest}.so"
    if cache.get(library) is None:
        lab = ["-include", str(_HERE / "cuda_host.h")]
        # The kernel comes first: what follows its shared arrays is CUDALAB_ROOM of the runtime (qualifiers.h).
        command = [*flags, *options, *lab, "-x", "c++", "-", "-x", "none", str(_runtime(runtime)), *libraries]
        try:
            _compile_into(library, command, program, name, include)
        except CompilerFailed:
            raise
        except CompileError as error:
            if refused := forbidden(str(error)) or unknown_name(str(error)) or scan.system_call(str(error)):
                raise NotOnCpu(refused) from None
            if lacking := scan.unfit(str(error), exported):
                raise SpecError(f"{name}: {lacking}") from None
            if taken := _taken(scan.entries, lab):
                what = f"{', '.join(taken)}: C or CUDA already has a function of this name"
                raise SpecError(f"{name}: {what}; rename the entry, such as {taken[0]}_kernel") from None
            raise
    return Built(
        library, {entry: end for entry, (end, _) in exported.items()}, scan.constants, sanitize and scan.static_shared
    )


def build(
    text: str,
    *,
    name: str = "kernel.cu",
    defines: Mapping[str, str] | None = None,
    include: Path | None = None,
    entries: Sequence[str] = (),
) -> Path:
    """Return the path of the shared object alone; see `load` for the arguments."""
    return compile_source(text, name=name, defines=defines, include=include, entries=entries).library


def _numbered(name: str, text: str) -> str:
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'#line 1 "{quoted}"\n{text}\n'


def _taken(entries: Sequence[str], lab: list[str]) -> list[str]:
    """The entries that have the name of something in the headers that every `.cu` gets."""
    asked = "".join(f'#line {i} "entry"\nnamespace {{ using ::{entry}; }}\n' for i, entry in enumerate(entries, 1))
    try:
        gxx.run([STANDARD, "-fsyntax-only", "-w", *lab, "-x", "c++", "-"], asked, "entry")
    except CompilerFailed:
        return []
    except CompileError as error:
        free = {int(number) for number in re.findall(r"^entry:(\d+):\d+: error", str(error), re.MULTILINE)}
        return [entry for i, entry in enumerate(entries, 1) if i not in free]
    return list(entries)


def _compile_into(library: Path, arguments: list[str], program: str, name: str, include: Path | None) -> None:
    with scratch.folder() as place:
        fresh = place.absolute() / library.name
        gxx.run([*arguments, "-o", str(fresh)], program, name, include)
        cache.put(library, fresh.read_bytes())


def _runtime(flags: Sequence[str]) -> Path:
    """Find or make the object file that kernels compiled with these flags are linked to; see cuda_host.h.

    To compile it takes longer than a small kernel does.
    """
    digest = hashlib.sha256("\0".join((gxx.version(), _headers(), repr(flags))).encode()).hexdigest()[:24]
    made = cache.folder("host") / f"{digest}.o"
    with _making.setdefault(digest, Lock()):  # several kernels may be compiled at once
        if cache.get(made) is None:
            command = [*flags, "-DCUDALAB_RUNTIME=1", "-c", "-x", "c++", str(_HERE / "cuda_host.h")]
            _compile_into(made, command, "", "cuda_host.h", None)
    return made


_making: dict[str, Lock] = {}


@lru_cache
def _headers() -> str:
    """And their folder: `place_of` would take lines of headers of another copy of the lab for the user's."""
    files = sorted([*_HERE.glob("*.h"), *(_HERE / "include").rglob("*.h")])
    return "\n".join((str(_HERE), *(f"{file.name}\n{file.read_text()}" for file in files)))
