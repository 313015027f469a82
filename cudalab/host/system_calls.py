"""Functions of the operating system that start processes, end them or load libraries: a `.cu` cannot call them.

No GPU has them. On the CPU a kernel that calls fork() in each thread would fill the machine. The linker refuses them,
so that a macro, a pointer to the function and a call in a header are found too, and a function of the user with such a
name is not. This is no sandbox: a `.cu` may still do what other functions of the C library do.
"""

from __future__ import annotations

import re

NAMES = (
    *("fork", "_Fork", "__fork", "vfork", "__vfork", "clone", "__clone", "clone3", "forkpty", "daemon", "syscall"),
    *("system", "popen", "wordexp", "posix_spawn", "posix_spawnp", "pidfd_spawn", "pidfd_spawnp"),
    *("execl", "execle", "execlp", "execv", "execve", "execvp", "execvpe", "execveat", "fexecve"),
    *("kill", "killpg", "dlopen", "dlmopen", "dlsym", "dlvsym"),
)
# Options of the linker: a call of fork becomes one of __wrap_fork, which nobody defines.
LINKED = tuple(f"-Wl,--wrap={name}" for name in NAMES)
REFUSAL = "functions of the operating system cannot run on the CPU: %s(); no GPU has them either"
_CALLED = re.compile(r"\b__wrap_(\w+)")


def function_in(message: str) -> str | None:
    """The first of these functions that a linker's message is about."""
    found = _CALLED.search(message)
    return found[1] if found and found[1] in NAMES else None
