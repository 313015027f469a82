"""Checks of what a study's file gives: the study, its works, their samples and quantities.

The fields and their checks are described in `cudalab/study/__init__.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cudalab.base.errors import InputError, SpecError, short, unknown
from cudalab.spec import find
from cudalab.spec.validate import checks, first_wrong, shown
from cudalab.study import values
from cudalab.study.record import Study, Work

LARGEST = 1e30  # the largest quantity that the results file may hold
SHORTEST, LONGEST = 1e-11, 1e12  # seconds of a sample; a shorter one would be rounded to zero


def checked(study: Study) -> Study:
    """Validate and return `study`. Raises SpecError for a wrong value, an unknown size or variant."""
    _require(study, _wrong(study))
    for variant in study.variants:
        _require(study, (wrong := _wrong(variant)) and f"variant {short(variant.label)}: {wrong}")
    for article in study.published:
        _require(study, (wrong := _wrong(article)) and f"published: {wrong}")
    labels = [variant.label for variant in study.variants]
    twice = next((label for label in labels if labels.count(label) > 1), "")
    _require(study, twice and f"two variants are named {short(twice)}")
    named = [size for one in (*study.defaults.values(), *(v.sizes for v in study.variants)) for size in one]
    of_articles = [key for article in study.published for key in article.seconds]
    for size in (*named, *(size for size, _ in of_articles)):
        _known(study, "size", size, study.sizes)
    for kernel in study.kernels:
        _known(study, "kernel", kernel, find.kernels())
    for label in (study.baseline, *(label for _, label in of_articles)):
        _known(study, "variant", label, labels)
    return study


def _wrong(record: Any) -> str:
    kind: Any = type(record)  # mypy holds type[Any] for not hashable
    return first_wrong(record, checks(kind))


def _require(study: Study, wrong: str) -> None:
    if wrong:
        raise SpecError(f"{study.file}: {wrong}")


def _known(study: Study, what: str, name: str, names: Any) -> None:
    if name not in names:
        raise SpecError(f"{study.file}: {unknown(what, name, names)}")


def ready(work: Any) -> Work:
    """Validate and return what a `make` returned. Raises InputError if it is no Work, or has a wrong value."""
    if not isinstance(work, Work):
        raise InputError(f"its make returned {shown(work)}; give a Work")
    if wrong := _wrong(work):
        raise InputError(f"its Work: {wrong}")
    return work


def samples(kind: str, given: Any) -> list[float]:
    """Validate what a clock returned: seconds. Raises InputError if it is no list of positive numbers."""
    try:
        found = [float(seconds) for seconds in given if not isinstance(seconds, str)]
    except (TypeError, ValueError, OverflowError):
        found = []
    if not found or len(found) < len(given) or not all(SHORTEST <= seconds <= LONGEST for seconds in found):
        raise InputError(f"its clock {short(kind)} gave {shown(given)}; give a list of seconds, each above 0")
    return found


def quantities(given: Any) -> dict[str, float]:
    """Validate what was counted: floats by name. Raises InputError if it is no mapping from names to numbers."""
    if not isinstance(given, Mapping):
        raise InputError(f"its quantities are {shown(given)}; give numbers by name, such as {{'held_bytes': 8.0}}")
    for name, value in given.items():
        if not values.name(name):
            raise InputError(f"a quantity is named {short(name)}; give a name such as 'held_bytes'")
        if not values.number(value) or abs(value) > LARGEST:
            raise InputError(f"its quantity {short(name)} is {shown(value)}; give a number")
    return {name: float(value) for name, value in given.items()}
