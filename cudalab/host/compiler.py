"""Compile a `.cu` for the CPU, once per content, into the cache."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from cudalab.base import cache, child, program, scratch
from cudalab.base.errors import CompileError, CompilerFailed, NotOnCpu, SpecError, Unavailable
from cudalab.host.source import Scan, forbidden, rewrite_shared, unknown_name, without_header
from cudalab.host.system_calls import LINKED
from cudalab.spec import dtype_macro
from cudalab.spec.compile_options import STANDARD
from cudalab.spec.cuda_source import blank_comments

_HERE = Path(__file__).parent

# Macros that nvcc defines for device code, for code that tests them with #if. Code for sm_90 often has instructions
# that the CPU lacks, and another path for older architectures; but clusters have none there.
_PREDEFINED = {"__CUDACC__": "1", "__CUDA_ARCH__": "800", "__NVCC__": "1"}
_WITH_CLUSTERS = {**_PREDEFINED, "__CUDA_ARCH__": "900"}
_CLUSTER = re.compile("cluster", re.IGNORECASE)

_FLAGS = (
    "-O2",
    "-fPIC",
    "-pthread",
    "-w",  # nvcc, not g++, is to warn about the user's code
    "-fvisibility=hidden",
    "-fno-math-errno",
    # nvcc contracts a*b+c to fma by default. Where it does so cannot be predicted here, and whether g++
    # can depends on the machine. `off` gives the same digits everywhere, and kernels are judged with a
    # tolerance. fmaf() and __fmaf_rn() are fused, as written.
    "-ffp-contract=off",
    "-fno-strict-aliasing",  # kernels reinterpret_cast float* to float4*
    "-fwrapv",  # nvcc's integers wrap around; else g++ may take (size_t)i * n for the same i * n that overflows
    "-fsanitize=alignment",  # undefined.h replaces libubsan, which is not linked; see below
    "-fno-sanitize-recover=all",  # its functions do not return
    "-U_FORTIFY_SOURCE",  # its longjmp check does not know our stacks
    # No -march=native: the cache may be shared by machines with different processors.
)

_LINK = (
    "-shared",
    "-Wl,-z,defs",  # an undefined name is an error now, not in dlopen
    "-Wl,-z,nodynamic-undefined-weak",  # a weak one is null: dlopen would find Python's own functions in this process
    "-Wl,-Bsymbolic",  # two modules may use one name for different __constant__ variables
    *LINKED,
)

# By version 5 addr2line of binutils 2.40 calls the source <stdin> if it is the first file that has code.
_DWARF = "-gdwarf-4"

# The usual libraries, listed here because with -fsanitize the compiler would add libubsan to its own list.
_LIBRARIES = ("-nodefaultlibs", "-Wl,--as-needed", "-lstdc++", "-lm", "-lpthread", "-lgcc_s", "-lgcc", "-lc")


# Checks that g++ and clang++ both have; the messages are in undefined.h.
_SANITIZE = (
    "-fno-omit-frame-pointer",
    "-fno-wrapv",  # an overflow is to be seen
    "-O0",  # an optimiser may remove the wrong access
    "-fsanitize=address,bounds,bool,enum,integer-divide-by-zero,null,return,shift,signed-integer-overflow",
    "-fsanitize=unreachable,vla-bound",
)
_SANITIZE_CLANG = ("-fno-sanitize=local-bounds",)  # would end the process without a message


# The compiler calls functions before accesses to memory: for volatile ones, see volatile.h.
_WATCHED = ("-fsanitize=thread",)
_WATCHED_PARAMETERS = ("tsan-instrument-func-entry-exit=0", "tsan-distinguish-volatile=1")
_WATCHED_CLANG = tuple(word for given in _WATCHED_PARAMETERS for word in ("-mllvm", f"-{given}"))
_WATCHED_GCC = tuple(word for given in _WATCHED_PARAMETERS for word in ("--param", given))

# To find races, see races.h. A read whose value is used later stays where it is written, such as before a guard.
_RACES = ("-O1", "-fno-tree-sink", "-fno-sanitize=alignment", "-fsanitize=thread", *_WATCHED_GCC)


class Built(NamedTuple):
    """A shared object, and the end of the names of its functions by the entry that is asked for."""

    library: Path
    entries: Mapping[str, str]
    constants: tuple[str, ...] = ()
    one_block: bool = False  # whether only one block can live at a time: a sanitized one with static shared arrays


def compiler_missing() -> str | None:
    """None if a C++ compiler can be called, else what is missing and how to install it."""
    try:
        compiler = _compiler()
    except ValueError as error:
        return f"CXX={os.environ['CXX']} cannot be read: {error}"
    if compiler and shutil.which(compiler[0]):
        return None
    name = compiler[0] if compiler else "g++"
    return f"no C++ compiler: {name} is not on PATH (install g++, or set CXX)"


def compiler_version() -> str:
    """The C++ compiler's path, and the first line of its version."""
    compiler = _compiler()
    done = program.run([*compiler, "--version"], text=True)
    return ": ".join(filter(None, [shutil.which(compiler[0]), *done.stdout.splitlines()[:1]]))


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
    and can only be loaded into a process that has preloaded `address_sanitizer()`.

    Raises NotOnCpu for what is refused by name, SpecError for an entry with a name that C or CUDA has taken, and
    CompileError for what g++ refuses: a mistake, or something of CUDA that the headers here lack.
    """
    missing = compiler_missing()
    if missing:
        raise CompileError(missing)
    search = [f"-I{_HERE / 'include'}"]
    if include is not None:
        include = include.absolute()
        search = [f"-iquote{include}", *search, f"-I{include}"]
    given = {**(_WITH_CLUSTERS if _CLUSTER.search(blank_comments(text)) else _PREDEFINED), **(defines or {})}
    options = [*search, *(f"-D{key}={value}" for key, value in given.items())]

    try:
        preprocessed = _run([*options, standard, "-E", "-x", "c++", "-"], _numbered(name, text), name, include)
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
    if races and _clang():
        raise Unavailable("only g++ finds races")
    modes += ["-DCUDALAB_RACES=1"] if races else []
    modes += ["-DCUDALAB_VOLATILE=1"] if scan.volatile and not sanitize else []
    checks: tuple[str, ...] = ()
    if sanitize:
        checks = (*_SANITIZE, *(_SANITIZE_CLANG if _clang() else ()))
    elif races:
        checks = _RACES
    elif scan.volatile:
        checks = (*_WATCHED, *(_WATCHED_CLANG if _clang() else _WATCHED_GCC))
    # A thread that waits without end has a line too.
    lines = ["-g"] if sanitize or races else ["-g1"] if scan.volatile or scan.waits else []
    common = [*_FLAGS, *_poison(races), *checks, *modes]
    contends = scan.contends and fibers and not sanitize
    own = [
        standard,
        f"-DCUDALAB_CONTENDS={int(contends)}",
        *([_DWARF, *lines] if lines else []),
    ]  # the runtime is the same
    runtime = [*common, STANDARD, *(["-O2"] if races else [])]  # the lab's own code, which follows each access
    flags = [*common, *own, *_LINK]
    libraries = [*_LIBRARIES, *([str(address_sanitizer())] if sanitize else [])]
    # The preprocessed text covers everything that the source includes. Folders are left out: the same
    # kernel in two checkouts is one entry of the cache.
    parts = (
        _version(),
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


def address_sanitizer() -> Path:
    """The library of the compiler's address sanitizer: a process that loads a sanitized module must preload it.

    Raises Unavailable where it is not installed.
    """
    if missing := compiler_missing():
        raise Unavailable(missing)
    names = [f"libclang_rt.asan-{os.uname().machine}.so", "libclang_rt.asan.so"] if _clang() else ["libasan.so"]
    for name in names:
        command = [*_compiler(), f"-print-file-name={name}"]
        found = Path(program.run(command, text=True).stdout.strip())
        if found.is_absolute() and found.is_file():
            script = re.search(
                rb"INPUT\s*\(\s*([^\s)]+)", found.read_bytes()[:1000]
            )  # some systems have a linker script
            return Path(os.fsdecode(script[1])) if script else found.resolve()
    package = "libclang-rt-dev" if _clang() else "libasan (it comes with Debian's g++)"
    raise Unavailable(f"{_compiler()[0]} has no address sanitizer ({names[0]}); install {package}")


def place_of(library: Path, address: int) -> str:
    """File and line of the user's code at this address of a shared object that was compiled with -g; "?" if unknown."""
    if not (reader := shutil.which("addr2line")):
        return "?"
    command = [reader, "-i", "-e", str(library), hex(address - 1)]  # the call before this address
    try:
        done = program.run(command, text=True)
    except Unavailable:
        return "?"
    places = [line.partition(" ")[0] for line in done.stdout.splitlines()]
    own = (Path(place).name for place in places if not place.startswith(f"{_HERE}{os.sep}"))
    return next(own, "?")


def _compiler() -> list[str]:
    """The compiler's command, which is the same in another folder."""
    words = shlex.split(os.environ.get("CXX") or "g++")
    found = shutil.which(words[0]) if words else None
    return [os.path.abspath(found), *words[1:]] if found else words


# What it says where a process of its own is killed, or memory or the disk is full.
_FAILED = re.compile(
    r"error: (?:Killed|Terminated|File size limit exceeded) signal terminated program|"
    r"unable to execute command: Killed|: out of memory allocating \d+ bytes|^virtual memory exhausted|"
    r": No space left on device$|final link failed: memory exhausted",
    re.MULTILINE,
)


def _numbered(name: str, text: str) -> str:
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'#line 1 "{quoted}"\n{text}\n'


def _run(arguments: list[str], text: str, name: str, include: Path | None = None) -> str:
    """Call the compiler where `#include "..."` is looked up first: in the folder of the source, not the current one.

    Source without a folder is compiled in the root folder: in one of the lab, `place_of` would take it for the lab's.
    """
    command, place = [*_compiler(), *arguments], include or Path(os.sep)
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(Unavailable):
            stack.enter_context(scratch.held())  # another thread that compiles may let the folder go meanwhile
        environment = {**scratch.environment(), "LC_ALL": "C"}  # messages in English, for tests to recognise
        try:
            done = program.run(command, program.COMPILATION, input=text, text=True, env=environment, cwd=place)
        except Unavailable as error:
            raise CompilerFailed(f"cannot compile {name} for the CPU: {error}") from None
    if done.returncode < 0 or _FAILED.search(done.stderr):
        how = child.how(done.returncode)
        raise CompilerFailed(f"cannot compile {name} for the CPU: {command[0]} {how}:\n{done.stderr.strip()}")
    if done.returncode:
        raise CompileError(f"{name} does not compile for the CPU:\n{done.stderr.strip()}")
    return done.stdout


def _taken(entries: Sequence[str], lab: list[str]) -> list[str]:
    """The entries that have the name of something in the headers that every `.cu` gets."""
    asked = "".join(f'#line {i} "entry"\nnamespace {{ using ::{entry}; }}\n' for i, entry in enumerate(entries, 1))
    try:
        _run([STANDARD, "-fsyntax-only", "-w", *lab, "-x", "c++", "-"], asked, "entry")
    except CompilerFailed:
        return []
    except CompileError as error:
        free = {int(number) for number in re.findall(r"^entry:(\d+):\d+: error", str(error), re.MULTILINE)}
        return [entry for i, entry in enumerate(entries, 1) if i not in free]
    return list(entries)


def _compile_into(library: Path, arguments: list[str], program: str, name: str, include: Path | None) -> None:
    with scratch.folder() as place:
        fresh = place.absolute() / library.name
        _run([*arguments, "-o", str(fresh)], program, name, include)
        cache.put(library, fresh.read_bytes())


def _runtime(flags: Sequence[str]) -> Path:
    """Find or make the object file that kernels compiled with these flags are linked to; see cuda_host.h.

    To compile it takes longer than a small kernel does.
    """
    digest = hashlib.sha256("\0".join((_version(), _headers(), repr(flags))).encode()).hexdigest()[:24]
    made = cache.folder("host") / f"{digest}.o"
    with _making.setdefault(digest, Lock()):  # several kernels may be compiled at once
        if cache.get(made) is None:
            command = [*flags, "-DCUDALAB_RUNTIME=1", "-c", "-x", "c++", str(_HERE / "cuda_host.h")]
            _compile_into(made, command, "", "cuda_host.h", None)
    return made


_making: dict[str, Lock] = {}


def _clang() -> bool:
    return "clang" in _version()


def _version() -> str:
    return _version_of(tuple(_compiler()))


@lru_cache
def _version_of(compiler: tuple[str, ...]) -> str:
    done = program.run([*compiler, "--version"], text=True)
    # -dumpmachine would cost a process more; the machine's name also separates x86-64 from Arm.
    return f"{compiler} {done.stdout} {os.uname().machine}"


@lru_cache
def _poison_of(compiler: tuple[str, ...], flag: str) -> tuple[str, ...]:
    """The flag, if the compiler takes it. The answer is kept for this version of the compiler."""
    digest = hashlib.sha256(f"{_version_of(compiler)}\0{flag}".encode()).hexdigest()[:24]
    kept = cache.folder("host") / f"{digest}.flag"
    if (known := cache.get(kept)) is None:
        asked = [*compiler, flag, "-fsyntax-only", "-x", "c++", os.devnull]
        known = b"yes" if program.run(asked).returncode == 0 else b"no"
        cache.put(kept, known)
    return (flag,) if known == b"yes" else ()


def _poison(races: bool = False) -> tuple[str, ...]:
    """Options that give local variables without a value one that shows, where the compiler has them.

    It is -1.7e38 for float (bytes of 0xFE), which a maximum does not show; with the race detector it is 0.
    """
    value = "zero" if races else "pattern"  # g++ 12, clang++ 16 (pattern: 8)
    return _poison_of(tuple(_compiler()), f"-ftrivial-auto-var-init={value}")


@lru_cache
def _headers() -> str:
    files = sorted([*_HERE.glob("*.h"), *(_HERE / "include").rglob("*.h")])
    return "".join(f"{file.name}\n{file.read_text()}" for file in files)
