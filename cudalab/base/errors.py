"""Errors that the user can correct. Every message says what to do next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from math import inf
from pathlib import Path
from traceback import extract_tb
from types import MappingProxyType
from typing import TypeVar

LONGEST = 10**9  # seconds that an option may give, beside inf

T = TypeVar("T")


class CudalabError(Exception):
    """Base of all errors that the command line prints without a traceback (exit code 2)."""


def out_of_memory(error: BaseException) -> bool:
    """Whether an error of any library says that memory ran out, by its name or its text."""
    return "MemoryError" in type(error).__name__ or "out of memory" in str(error).lower()


class NotFound(CudalabError, LookupError):
    """An unknown name; the message suggests the closest known one."""


class SpecError(CudalabError, TypeError):
    """An invalid spec: a field is missing or has a wrong value."""


class InputError(CudalabError, ValueError):
    """An invalid value of an argument or an option."""


class CompileError(CudalabError, RuntimeError):
    """The `.cu` does not compile; the message contains the output of the compiler."""


class CompilerFailed(CompileError):
    """The compiler itself failed, did not start or did not end: nothing is known of the `.cu`."""


class LaunchError(CudalabError, RuntimeError):
    """A launch failed: wrong arguments, exceeded limits, or a barrier that some threads never reach."""


class OverrunError(LaunchError):
    """A launch wrote outside its buffers; its result counts as wrong, whatever its values."""


class CrashError(LaunchError):
    """The process that executed a launch has ended."""


class RaceError(LaunchError):
    """Two threads of a launch use the same memory, and nothing orders them; its result counts as wrong."""


class Unavailable(CudalabError, RuntimeError):
    """This machine or this backend cannot do the work; the message says what to install."""


class Broken(Unavailable):
    """What this machine has and what does not work now, such as a full disk: a row has an error, and is not skipped."""


class NotOnCpu(Unavailable):
    """What the CPU executor cannot take of a `.cu`: the message names it and its line.

    `compiled` is the seconds in which nvcc compiled the file, 0 if nvcc was not asked.
    """

    def __init__(self, message: str, compiled: float = 0.0) -> None:
        super().__init__(message)
        self.compiled = compiled


def kept(call: Callable[[], T]) -> T:
    """The result of `call`. SystemExit and KeyboardInterrupt become an error of one row: the worker goes on."""
    try:
        return call()
    except (SystemExit, KeyboardInterrupt) as error:
        raise CudalabError(f"it raised {type(error).__name__}, which ends Python") from error


def short(text: object, longest: int = 100) -> str:
    """Quote `text` as Python does; cut it in the middle where it is longer than `longest`."""
    quoted = repr(text)
    return quoted if len(quoted) <= longest else f"{quoted[: longest - 23]} ... {quoted[-18:]}"


def why(error: Exception) -> str:
    """Return the message of an error; of an OSError without its number."""
    if isinstance(error, UnicodeEncodeError):
        return "the name is not UTF-8 (if it is, export PYTHONUTF8=1)"
    return (error.strerror if isinstance(error, OSError) else None) or text(error)


def text(error: BaseException) -> str:
    """The text of an error; "" where its own `__str__` fails, or would end Python."""
    try:
        return str(error)
    except KeyboardInterrupt:
        raise
    except BaseException:  # from a __str__ of a spec's author
        return ""


def message_of(error: BaseException) -> str:
    """Return the message of an error, with the name of its type unless it is one of cudalab's errors."""
    if isinstance(error, CudalabError):
        return str(error)
    said = text(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def at_line(said: str, error: BaseException, file: str | Path) -> str:
    """Add to what is `said` of an error its last line in a file, such as ` (softmax.py, line 7)`, if it has one."""
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(file)]
    return f"{said} ({Path(file).name}, line {lines[-1]})" if lines else said


def unknown(what: str, name: str, known: Iterable[str], others: Mapping[str, str] = MappingProxyType({})) -> NotFound:
    """Return the error for a name that is not in `known`; it suggests the closest name and lists all.

    `others` are further names that may be meant, and what to type for each.
    """
    names = list(known)
    close = get_close_matches(name, [*others, *names], n=1)
    hint = f"did you mean {others.get(close[0], close[0])!r}? " if close else ""
    return NotFound(f"no {what} named {short(name)}; {hint}known: {', '.join(names) or 'none'}")


def need_seconds(name: str, given: object, more: str = "") -> None:
    """Raise InputError unless `given` is a positive number of seconds; `more` names other allowed values."""
    if not isinstance(given, (int, float)) or not given > 0 or LONGEST < given < inf:
        raise InputError(f"{name} is {given} s; give a positive number of seconds, up to {LONGEST:,}{more}")
