"""The host's C++ compiler: its command, its version, what it takes, and a run of it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import shutil
from functools import lru_cache
from pathlib import Path

from cudalab.base import cache, child, program, scratch
from cudalab.base.errors import CompileError, CompilerFailed, Unavailable

_HERE = Path(__file__).parent


def compiler_missing() -> str | None:
    """None if a C++ compiler can be called, else what is missing and how to install it."""
    try:
        compiler = cxx()
    except ValueError as error:
        return f"CXX={os.environ['CXX']} cannot be read: {error}"
    if compiler and shutil.which(compiler[0]):
        return None
    name = compiler[0] if compiler else "g++"
    return f"no C++ compiler: {name} is not on PATH (install g++, or set CXX)"


def compiler_version() -> str:
    """The C++ compiler's path, and the first line of its version."""
    compiler = cxx()
    done = program.run([*compiler, "--version"], text=True)
    return ": ".join(filter(None, [shutil.which(compiler[0]), *done.stdout.splitlines()[:1]]))


def address_sanitizer() -> Path:
    """The library of the compiler's address sanitizer: a process that loads a sanitized module must preload it.

    Raises Unavailable where it is not installed.
    """
    if missing := compiler_missing():
        raise Unavailable(missing)
    names = [f"libclang_rt.asan-{os.uname().machine}.so", "libclang_rt.asan.so"] if is_clang() else ["libasan.so"]
    for name in names:
        command = [*cxx(), f"-print-file-name={name}"]
        found = Path(program.run(command, text=True).stdout.strip())
        if found.is_absolute() and found.is_file():
            script = re.search(
                rb"INPUT\s*\(\s*([^\s)]+)", found.read_bytes()[:1000]
            )  # some systems have a linker script
            return Path(os.fsdecode(script[1])) if script else found.resolve()
    package = "libclang-rt-dev" if is_clang() else "libasan (it comes with Debian's g++)"
    raise Unavailable(f"{cxx()[0]} has no address sanitizer ({names[0]}); install {package}")


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


def cxx() -> list[str]:
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


def run(arguments: list[str], text: str, name: str, include: Path | None = None) -> str:
    """Call the compiler where `#include "..."` is looked up first: in the folder of the source, not the current one.

    Source without a folder is compiled in the root folder: in one of the lab, `place_of` would take it for the lab's.
    """
    command, place = [*cxx(), *arguments], include or Path(os.sep)
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


def is_clang() -> bool:
    return "clang" in version()


def version() -> str:
    return _version_of(tuple(cxx()))


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


def poison(races: bool = False) -> tuple[str, ...]:
    """Options that give local variables without a value one that shows, where the compiler has them.

    It is -1.7e38 for float (bytes of 0xFE), which a maximum does not show; with the race detector it is 0.
    """
    value = "zero" if races else "pattern"  # g++ 12, clang++ 16 (pattern: 8)
    return _poison_of(tuple(cxx()), f"-ftrivial-auto-var-init={value}")
