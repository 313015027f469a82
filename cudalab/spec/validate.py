"""What the fields of a spec may hold: wrong values are said when the spec is read, not where they are first used."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any

from cudalab.base.errors import short

if TYPE_CHECKING:
    from cudalab.spec.kernel import Kernel

Check = Callable[[Any], bool]
Fields = Mapping[str, tuple[Check, str]]  # by field: whether a value fits, and what to give instead


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


def wrong(kernel: Kernel) -> str:
    """What is wrong with the first field that holds a value of a wrong type, and what to give; "" if none does."""
    return first_wrong(kernel, FIELDS)


def first_wrong(record: object, fields: Fields) -> str:
    """The same of any record: `fields` are what it may hold, by name."""
    for name, (fits, advice) in fields.items():
        value = getattr(record, name)
        if not fits(value):
            return f"{name} is {shown(value)}; give {advice}"
    return ""


def shown(value: Any) -> str:
    """A value as a message gives it: an object without a form of its own by its type."""
    try:
        text = short(value)
    except Exception:  # a __repr__ of the spec's own
        text = " object at 0x"
    return f"of type {type(value).__name__}" if " at 0x" in text else text


def text(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def _name(value: Any) -> bool:
    return isinstance(value, str) and value.isidentifier()


def _shape(value: Any) -> bool:
    return isinstance(value, tuple) and all(type(n) is int and 0 <= n < 2**63 for n in value)


def _choices(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) > 0 and all(type(n) is int and abs(n) < 2**31 for n in value)


def _budget(value: Any) -> bool:
    numbers = (getattr(value, name, None) for name in ("ulp", "atol"))
    return all(isinstance(n, (int, float)) and 0 <= n < math.inf for n in numbers)


def tuple_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, tuple) and all(map(fits, value))


def by_name(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, Mapping) and all(text(k) and fits(v) for k, v in value.items())


def or_none(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or fits(value)


_BUDGETS = "a Budget by dtype, such as {'float32': Budget(4, why='...')}"
_FORM = (or_none(callable), "a function of the inputs, or None")
_EXPRESSION = (or_none(lambda value: isinstance(value, str)), "a C++ or Triton expression as text, or None")

FIELDS: Fields = {
    "summary": (text, "a line of text"),
    "dtypes": (tuple_of(text), "a tuple of names, such as ('float32',)"),
    "sizes": (by_name(_shape), "names and shapes, such as {'small': (1000,)}"),
    "edges": (tuple_of(_shape), "a tuple of shapes, such as ((1,), (31,))"),
    "reference": (callable, "a NumPy function, whose parameters name the inputs"),
    "entries": (by_name(callable), "a launch function by __global__ function, such as {'softmax': launch}"),
    "called": (or_none(callable), "a function of the inputs that names an entry, or None"),
    "budgets": (by_name(_budget), _BUDGETS),
    "peers": (by_name(_budget), _BUDGETS),
    "composed": (by_name(_budget), _BUDGETS),
    "inputs": (or_none(callable), "a function of shape, dtype and generator, or None"),
    "agree": (or_none(callable), "a function of the inputs' shapes that says whether they go together, or None"),
    "output": (_name, "the name of the output, such as 'y'"),
    "output_shape": (or_none(callable), "a function of the inputs' shapes, or None"),
    "pointwise": (lambda value: isinstance(value, bool), "True or False"),
    "rank": (or_none(lambda value: type(value) is int and value >= 0), "a number of dimensions, or None"),
    "tunables": (by_name(_choices), "values by macro name, the default first, such as {'BLOCK_THREADS': (256, 128)}"),
    "restrictions": (or_none(callable), "a function of the tunables that says which go together, or None"),
    "torch": _FORM,
    "torch_native": _FORM,
    "backward": (or_none(callable), "a function of the output's gradient and the inputs, or None"),
    "cupy": _FORM,
    "elementwise": _EXPRESSION,
    "triton": _EXPRESSION,
}
