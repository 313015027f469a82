"""What a study, its variants and their work may hold: wrong values are said with what to give, where they are read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from cudalab.base.errors import InputError, SpecError, short, unknown
from cudalab.spec.validate import Fields, by_name, first_wrong, or_none, shown, text, tuple_of
from cudalab.study import DEVICES, Published, Study, Variant, Work

LARGEST = 1e30  # of a quantity: as the results file has it
SHORTEST, LONGEST = 1e-11, 1e12  # seconds of a sample: one that is rounded to zero is none


def checked(study: Study) -> Study:
    """The same. Raises SpecError for a field that holds what it may not, NotFound for a name that is not there."""
    _require(study, first_wrong(study, STUDY))
    for variant in study.variants:
        _require(study, (wrong := first_wrong(variant, VARIANT)) and f"variant {short(variant.label)}: {wrong}")
    for article in study.published:
        _require(study, (wrong := first_wrong(article, PUBLISHED)) and f"published: {wrong}")
    labels = [variant.label for variant in study.variants]
    twice = next((label for label in labels if labels.count(label) > 1), "")
    _require(study, twice and f"two variants are named {short(twice)}")
    named = [size for one in (*study.defaults.values(), *(v.sizes for v in study.variants)) for size in one]
    of_articles = [key for article in study.published for key in article.seconds]
    for size in (*named, *(size for size, _ in of_articles)):
        _known(study, "size", size, study.sizes)
    for label in (study.baseline, *(label for _, label in of_articles)):
        _known(study, "variant", label, labels)
    return study


def _require(study: Study, wrong: str) -> None:
    if wrong:
        raise SpecError(f"{study.file}: {wrong}")


def _known(study: Study, what: str, name: str, names: Any) -> None:
    if name not in names:
        raise SpecError(f"{study.file}: {unknown(what, name, names)}")


def ready(work: Any) -> Work:
    """What a `make` has returned. Raises InputError if it is no Work, or a field of it holds what it may not."""
    if not isinstance(work, Work):
        raise InputError(f"its make returned {shown(work)}; give a Work")
    if wrong := first_wrong(work, WORK):
        raise InputError(f"its Work: {wrong}")
    return work


def samples(kind: str, given: Any) -> list[float]:
    """What a clock has given, as seconds. Raises InputError if it is not what a clock may give."""
    try:
        found = [float(seconds) for seconds in given if not isinstance(seconds, str)]
    except (TypeError, ValueError, OverflowError):
        found = []
    if not found or len(found) < len(given) or not all(SHORTEST <= seconds <= LONGEST for seconds in found):
        raise InputError(f"its clock {short(kind)} gave {shown(given)}; give a list of seconds, each above 0")
    return found


def quantities(given: Any) -> dict[str, float]:
    """What was counted. Raises InputError if it is no number by name."""
    if not isinstance(given, Mapping):
        raise InputError(f"its quantities are {shown(given)}; give numbers by name, such as {{'held_bytes': 8.0}}")
    for name, value in given.items():
        if not _name(name):
            raise InputError(f"a quantity is named {short(name)}; give a name such as 'held_bytes'")
        if not _finite(value) or abs(value) > LARGEST:
            raise InputError(f"its quantity {short(name)} is {shown(value)}; give a number")
    return {name: float(value) for name, value in given.items()}


def _finite(value: Any) -> bool:
    try:
        return not isinstance(value, str) and math.isfinite(value)
    except (TypeError, ValueError, OverflowError):
        return False


def _positive(value: Any) -> bool:
    return _finite(value) and float(value) > 0


def _share(value: Any) -> bool:
    return _finite(value) and float(value) >= 0


def _name(value: Any) -> bool:
    """One that a list on the command line can hold."""
    return text(value) and value.strip() == value != "" and "," not in value


def _names(value: Any) -> bool:
    return tuple_of(_name)(value)


def _lines(value: Any) -> bool:
    return isinstance(value, str)


def _devices(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) > 0 and all(device in DEVICES for device in value)


def _sizes(value: Any) -> bool:
    return by_name(_parameters)(value) and len(value) > 0 and all(_name(name) and name != "all" for name in value)


def _parameters(value: Any) -> bool:
    """Of a size: those that the results file holds have their type."""
    if not by_name(lambda of: True)(value):
        return False
    shape, dtype = value.get("shape", ()), value.get("dtype", "")
    return isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape) and isinstance(dtype, str)


def _defaults(value: Any) -> bool:
    return by_name(lambda sizes: _names(sizes) and len(sizes) > 0)(value) and all(device in DEVICES for device in value)


def _settings(value: Any) -> bool:
    return by_name(lambda setting: isinstance(setting, (bool, int, float, str)))(value)


def _seconds(value: Any) -> bool:
    pairs = isinstance(value, Mapping) and all(_names(key) and len(key) == 2 for key in value)
    return pairs and all(map(_positive, value.values()))


STUDY: Fields = {
    "summary": (text, "a line of text"),
    "sizes": (_sizes, "parameters by the size's name, such as {'small': {'shape': (64, 256)}}; no name is 'all'"),
    "variants": (lambda value: tuple_of(lambda of: isinstance(of, Variant))(value) and len(value) > 0,
                 "a tuple of Variants, such as (Variant('loop', make),)"),
    "defaults": (_defaults, "a tuple of sizes by device, such as {'cuda': ('large',), 'cpu': ('small',)}"),
    "baseline": (_name, "the label of a variant"),
    "finding": (callable, "a function of the run that returns a sentence"),
    "settings": (_settings, "numbers, texts, True or False by name, such as {'steps': 10}"),
    "kinds": (lambda value: _names(value) and len(value) > 0, "a tuple of kinds of time, such as ('wall',)"),
    "tolerance": (_share, "a number such as 1e-5, the share of the largest value that a result may be off"),
    "memory": (lambda value: isinstance(value, bool), "True or False"),
    "rounds": (lambda value: type(value) is int and value > 0, "a number of rounds, at least 1"),
    "why": (_lines, "text"),
    "published": (tuple_of(lambda of: isinstance(of, Published)), "a tuple of Published, such as (Published(...),)"),
    "about": (_lines, "text"),
}  # fmt: skip
VARIANT: Fields = {
    "label": (_name, "a name without a comma"),
    "make": (callable, "a function that takes the lab and returns a Work"),
    "devices": (_devices, f"a tuple of devices, of {DEVICES}"),
    "why": (_lines, "text"),
    "sizes": (_names, "a tuple of sizes, or () for all"),
    "tolerance": (_share, "a number such as 1e-2, or 0 for the study's"),
}
PUBLISHED: Fields = {
    "source": (text, "a line of text"),
    "machine": (text, "a line of text"),
    "seconds": (_seconds, "seconds by size and label, such as {('small', 'loop'): 2e-3}"),
    "differs": (text, "a line of text"),
}
WORK: Fields = {
    "run": (callable, "a function without arguments"),
    "result": (or_none(callable), "a function without arguments, or None"),
    "clocks": (or_none(lambda value: by_name(callable)(value) and len(value) > 0),
               "functions by kind of time, such as {'step': sample}, or None"),
    "quantities": (callable, "a function that returns numbers by name"),
    "afterwards": (callable, "a function that returns numbers by name"),
    "items": (_share, "a number, how many one run gets through"),
    "notes": (lambda value: isinstance(value, list) and all(isinstance(note, str) for note in value),
              "a list of texts"),
    "close": (callable, "a function without arguments"),
}  # fmt: skip
