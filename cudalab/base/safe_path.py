"""Python processes that libraries start import no file of the current folder in the place of a module.

`python -c` puts the current folder first on its path, so that a user's copy.py or struct.py would run there.
multiprocessing starts its fork server and resource tracker so, torch.compile a probe of the processor. From Python 3.11
on an environment variable forbids it. Python 3.10 does not know the variable: there the commands are changed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

VARIABLE = {"PYTHONSAFEPATH": "1"}  # for the environment of every process of a run
KNOWN = sys.version_info >= (3, 11)  # whether Python heeds the variable
WITHOUT = "import sys; del sys.path[:1]\n"  # before a program of `python -c`: sys.path begins with the current folder


def enforce() -> None:
    """Change the commands by which this process starts Python, if the variable has no effect. Call it once, early."""
    if KNOWN:
        return
    subprocess.Popen.__init__ = _changed(subprocess.Popen.__init__)  # type: ignore[method-assign]
    flags: Callable[[], list[str]] = subprocess._args_from_interpreter_flags  # type: ignore[attr-defined]
    subprocess._args_from_interpreter_flags = lambda: [*flags(), "-I"]  # type: ignore[attr-defined]


def _changed(start: Callable[..., None]) -> Callable[..., None]:
    def changed(self: Any, args: Any, *more: Any, **options: Any) -> None:
        start(self, without_current_folder(args), *more, **options)

    return changed


def without_current_folder(args: Any) -> Any:
    """The command `python -c PROGRAM` of this interpreter with a program that does not look there; others as given."""
    if not isinstance(args, (list, tuple)) or len(args) < 3 or list(args[:2]) != [sys.executable, "-c"]:
        return args
    program = args[2]
    if not isinstance(program, str) or "__future__" in program:  # such an import has to be the first
        return args
    return [*args[:2], WITHOUT + program, *args[3:]]
