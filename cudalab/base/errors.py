"""What can go wrong in a way that the user can mend. Every message says what to do next."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class CudalabError(Exception):
    """Base of all errors that the command line prints without a traceback (exit code 2)."""


class NotFound(CudalabError, LookupError):
    """A name that is not known; the message suggests the closest one."""


class SpecError(CudalabError, TypeError):
    """A kernel's spec that cannot be used: a field is missing or has a wrong value."""


class InputError(CudalabError, ValueError):
    """An argument or an option with a value that cannot be used."""


class CompileError(CudalabError, RuntimeError):
    """The `.cu` does not compile; the message holds the compiler's own lines."""


class LaunchError(CudalabError, RuntimeError):
    """A launch was refused or failed: wrong arguments, limits exceeded, a stuck barrier."""


class OverrunError(LaunchError):
    """A launch wrote where it may not: its answer is wrong, whatever it is."""


class Unavailable(CudalabError, RuntimeError):
    """This machine, or this backend, cannot do what was asked; the message says what to install."""


def short(text: object, longest: int = 100) -> str:
    """`text` in quotes, as Python writes it, and cut in the middle if it is too long for a message."""
    quoted = repr(text)
    return quoted if len(quoted) <= longest else f"{quoted[: longest - 23]} ... {quoted[-18:]}"


def why(error: Exception) -> str:
    """What an OSError says without its number; what any other error says."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def named(error: BaseException) -> str:
    """Our own errors as they are, since their words are enough; others with their type."""
    return str(error) if isinstance(error, CudalabError) else f"{type(error).__name__}: {error}"


def unknown(what: str, name: str, known: Iterable[str]) -> NotFound:
    """The error for a name that is not in `known`, with the nearest known name and the full list."""
    names = list(known)
    close = get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return NotFound(f"no {what} named {short(name)}; {hint}known: {', '.join(names) or 'none'}")


def need_seconds(name: str, given: object, more: str = "") -> None:
    """Raise InputError for what is no positive number of seconds; `more` says what else may be given."""
    if not isinstance(given, (int, float)) or not given > 0:
        raise InputError(f"{name} is {given} s; give a positive number of seconds{more}")
