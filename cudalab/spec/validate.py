"""What the fields of a record may hold.

A field is described once, where it is declared: `summary: str = field(metadata=about("one line", text, "a line"))`.
From that come the check of its value, the list of fields in `help()`, and the table in docs/kernel.md.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, wraps
from typing import Any, TypeVar

from cudalab.base import bounded
from cudalab.base.errors import SpecError, short, unknown

Check = Callable[[Any], bool]
Fields = Mapping[str, tuple[Check, str]]  # by field: whether a value fits, and what to give instead
Record = TypeVar("Record", bound=type)


@dataclass(frozen=True)
class About:
    """What is said of one field of a record."""

    what: str  # in Markdown
    without: str  # what applies if the field is left out
    fits: Check | None  # None: any value
    advice: str  # what to give instead of a value that does not fit


def about(what: str, fits: Check | None = None, advice: str = "", without: str = "required") -> dict[str, About]:
    """The metadata of a dataclass field: what it holds, the check of its value, and what to give instead."""
    return {"about": About(what, without, fits, advice)}


def optional(what: str, fits: Check, advice: str, *, default: Any = None, without: str = "no such rows") -> Any:
    """A dataclass field with a default (a value, or `dict` for an empty one), and what that means: `without`."""
    given = {"default_factory": dict} if default is dict else {"default": default}
    return field(**given, metadata=about(what, fits, advice, without))


def described(record: type) -> dict[str, About]:
    """What is said of the fields of a dataclass, by name."""
    return {f.name: f.metadata["about"] for f in fields(record) if "about" in f.metadata}


@cache
def checks(record: type) -> Fields:
    """The checks of a dataclass whose fields have `about`."""
    return {name: (said.fits, said.advice) for name, said in described(record).items() if said.fits}


def first_wrong(record: object, fields: Fields) -> str:
    """The first field that holds a value of a wrong type, with what to give instead; "" if there is none."""
    for name, (fits, advice) in fields.items():
        value = getattr(record, name)
        if not fits(value):
            return f"{name} is {shown(value)}; give {advice}"
    return ""


def strict(record: Record) -> Record:
    """Decorate a dataclass: a mistake in its fields is a SpecError that says what to give; the docstring lists fields.

    The mistakes: an unknown field, which gets the closest one named, a field that is missing, and one given twice.
    """
    init = record.__init__  # type: ignore[misc]
    names = inspect.signature(record).parameters

    @wraps(init)
    def __init__(self: object, *args: Any, **given: Any) -> None:
        for name in given:
            if remedy := getattr(record, "GONE", {}).get(name):
                raise SpecError(f"{record.__name__} has no field {name} any more; {remedy}")
            if name not in names:
                raise SpecError(str(unknown(f"field of {record.__name__}", name, names)))
        try:
            init(self, *args, **given)
        except TypeError:
            if wrong := _miscalled(record, names, args, given):
                raise SpecError(wrong) from None
            raise

    record.__init__ = __init__  # type: ignore[misc]
    if record.__doc__ and (lines := _lines(record)):
        record.__doc__ = f"{inspect.cleandoc(record.__doc__)}\n\nFields:\n{lines}\n"
    return record


def _miscalled(
    record: type, names: Mapping[str, inspect.Parameter], args: tuple[Any, ...], given: Mapping[str, Any]
) -> str:
    """Which fields are missing from a call of a record, or given twice, and what to give; "" if none is."""
    ordered = [name for name, taken in names.items() if taken.kind is not taken.KEYWORD_ONLY]
    if len(args) > len(ordered):
        return f"{record.__name__} got {len(args)} positional values; give each as FIELD=VALUE"
    if twice := [name for name in ordered[: len(args)] if name in given]:
        return f"{record.__name__} got {twice[0]} by position and by name; give it once"
    needed = [name for name, taken in names.items() if taken.default is taken.empty]
    missing = [name for name in needed if name not in given and name not in ordered[: len(args)]]
    said, call = described(record), f"{record.__name__}({', '.join(needed)})"
    return "\n".join(
        f"{record.__name__} lacks {name}; give {said[name].advice if name in said else call}" for name in missing
    )


def _lines(record: type) -> str:
    """The fields of a record as its docstring lists them, without the links of Markdown."""
    lines = []
    for name, said in described(record).items():
        what = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", said.what)
        lines.append(f"    {name}: {what} ({'' if said.without == 'required' else 'default: '}{said.without})")
    return "\n".join(lines)


def refused(function: Callable[..., Any], given: tuple[str, ...] = (), by_name: tuple[str, ...] = ()) -> str:
    """How `function` is declared and called, if it cannot be called so; "" if it can be."""
    try:
        taken = inspect.signature(function)
    except (TypeError, ValueError):  # a built-in function without a signature
        return ""
    try:
        taken.bind(*given, **dict.fromkeys(by_name))
    except TypeError:
        how = f"with {', '.join(given)}, in this order" if given else f"by name with {', '.join(by_name)}"
        return f"takes {taken}, but it is called {how}"
    return ""


def unnamed(function: Callable[..., Any], names: tuple[str, ...]) -> str:
    """Which parameters of a function are none of `names`, by which it is called; "" if all are."""
    try:
        taken = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a built-in function without a signature
        return f"has no parameters that can be read; give a lambda of {', '.join(names)}"
    others = [p.name for p in taken if p.kind is not p.VAR_KEYWORD and p.name not in names and p.default is p.empty]
    return f"takes {others[0]!r}; it can take {', '.join(names)}" if others else ""


def called(function: Callable[..., Any], *given: Any, **by_name: Any) -> Any:
    """What a function of a spec gives. Raises SpecError if it calls sys.exit(), which would end the run's process."""
    try:
        return bounded.call(function, *given, **by_name)
    except SystemExit as error:
        raise SpecError(f"{getattr(function, '__name__', 'a function')} of the spec calls sys.exit()") from error


def called_with(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """What `function` gives for those of the values that its parameters name. Raises as `called` does."""
    taken = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in taken.values()):
        return called(function, **values)
    return called(function, **{name: value for name, value in values.items() if name in taken})


def shown(value: Any) -> str:
    """A value as a message shows it: by its type if it has no readable form."""
    try:
        text = short(value)
    except Exception:  # from a __repr__ of the spec's author
        text = " object at 0x"
    return f"of type {type(value).__name__}" if " at 0x" in text else text


# ---- checks of values ------------------------------------------------------------------------------------------------


def text(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def identifier(value: Any) -> bool:
    return isinstance(value, str) and value.isidentifier()


def shape(value: Any) -> bool:
    return isinstance(value, tuple) and all(type(n) is int and 0 <= n < 2**63 for n in value)


def choices(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) > 0 and all(type(n) is int and abs(n) < 2**31 for n in value)


def alignment(value: Any) -> bool:
    """A power of two that an allocator on a GPU is sure to give, or several by name."""
    if isinstance(value, Mapping):
        return all(text(name) and type(n) is int and alignment(n) for name, n in value.items())
    return type(value) is int and value in (1, 2, 4, 8, 16, 32, 64, 128, 256)


def budget(value: Any) -> bool:
    ulp, atol = (getattr(value, name, None) for name in ("ulp", "atol"))
    return _allowed(ulp) and (callable(atol) or _allowed(atol))


def _allowed(error: Any) -> bool:
    return isinstance(error, (int, float)) and 0 <= error < math.inf


def budgets(value: Any) -> bool:
    """One for all dtypes, or one by dtype."""
    return budget(value) or by_name(budget)(value)


def tuple_of(fits: Check) -> Check:
    return lambda value: isinstance(value, tuple) and all(map(fits, value))


def by_name(fits: Check) -> Check:
    return lambda value: isinstance(value, Mapping) and all(text(k) and fits(v) for k, v in value.items())


def or_none(fits: Check) -> Check:
    return lambda value: value is None or fits(value)


def function(of: str) -> tuple[Check, str]:
    """The check of an optional function, and what to give instead."""
    return or_none(callable), f"a function of {of}, or None"
