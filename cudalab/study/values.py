"""Checks of the values that the fields of a study hold: each says whether a value fits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from cudalab.spec.validate import by_name, text, tuple_of

DEVICES = ("cuda", "cpu")


def number(value: Any) -> bool:
    """Whether a value is a finite number."""
    try:
        return not isinstance(value, str) and math.isfinite(value)
    except (TypeError, ValueError, OverflowError):
        return False


def not_negative(value: Any) -> bool:
    return number(value) and float(value) >= 0


def count(value: Any) -> bool:
    """Whether a value is a whole number of at least 1."""
    return type(value) is int and value > 0


def yes_or_no(value: Any) -> bool:
    return isinstance(value, bool)


def name(value: Any) -> bool:
    """A name that a list on the command line can hold."""
    return text(value) and value.strip() == value != "" and "," not in value


def names(value: Any) -> bool:
    return tuple_of(name)(value)


def some_names(value: Any) -> bool:
    return names(value) and len(value) > 0


def lines(value: Any) -> bool:
    return isinstance(value, str)


def notes(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(note, str) for note in value)


def devices(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) > 0 and all(device in DEVICES for device in value)


def sizes(value: Any) -> bool:
    return by_name(parameters)(value) and len(value) > 0 and all(name(size) and size != "all" for size in value)


def parameters(value: Any) -> bool:
    """Parameters of a size. `shape` and `dtype`, which the results file holds, have its types."""
    if not by_name(lambda of: True)(value):
        return False
    shape, dtype = value.get("shape", ()), value.get("dtype", "")
    return isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape) and isinstance(dtype, str)


def defaults(value: Any) -> bool:
    return by_name(some_names)(value) and all(device in DEVICES for device in value)


def settings(value: Any) -> bool:
    return by_name(lambda setting: isinstance(setting, (bool, int, float, str)))(value)


def seconds(value: Any) -> bool:
    """Seconds above 0 by (size, label)."""
    pairs = isinstance(value, Mapping) and all(names(key) and len(key) == 2 for key in value)
    return pairs and all(number(of) and float(of) > 0 for of in value.values())


def functions(value: Any) -> bool:
    return by_name(callable)(value) and len(value) > 0
