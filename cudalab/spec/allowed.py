"""Which lengths the dimensions of a spec may have: `dims={"cols": "multiple of 8, at most 4096", "k": "at most cols"}`.

A text is rules with commas between. A bound is a word as in `shapes`: a number, another dimension, an expression of it.
It may name tunables too, as in "multiple of TILE": the rule then holds for each value that the spec declares.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from math import isqrt, lcm
from types import MappingProxyType

from cudalab.spec import dimensions
from cudalab.spec.dimensions import Dimensions

ADVICE = (
    "rules by dimension, such as {'cols': 'multiple of 8, at most 4096'}; a rule is 'multiple of 8', "
    "'divisor of cols', 'at least 1', 'at most 4096', 'power of 2' or 'one of 64, 128'"
)
MOST = 1 << 62  # the longest dimension that is thought of
_KIND = "multiple of|divisor of|at least|at most|power of|one of"
_BETWEEN = re.compile(rf"\s*(?:,|\band\b)\s*(?=(?:{_KIND})\b)")
_RULE = re.compile(rf"({_KIND})\s+(\S.*)")
_OTHER_WAY = {"multiple of": "divisor of", "divisor of": "multiple of", "at least": "at most", "at most": "at least"}

NONE: Mapping[str, tuple[int, ...]] = MappingProxyType({})
Tunables = Mapping[str, tuple[int, ...]]  # by name, all values that the spec declares
Rule = tuple[str, tuple[str, ...]]  # its kind, and the words of its bounds


@lru_cache(maxsize=1024)
def rules(text: str) -> tuple[Rule, ...]:
    """The rules of a text; none where it is no such text."""
    found: list[Rule] = []
    for part in _BETWEEN.split(text.strip()):
        match = _RULE.fullmatch(part)
        bounds = tuple(re.split(r"\s*,\s*|\s+or\s+|\s+", match[2].strip())) if match else ()
        fits = all(dimensions.fits(word) and word != dimensions.REST for word in bounds)
        if not match or not fits or (len(bounds) > 1 and match[1] != "one of"):
            return ()
        if match[1] == "power of" and bounds != ("2",):
            return ()
        found.append((match[1], bounds))
    return tuple(found)


def fits(value: object) -> bool:
    """Whether a spec may give this for one dimension."""
    return isinstance(value, str) and bool(rules(value))


def names(text: str) -> tuple[str, ...]:
    """The dimensions and tunables that the bounds of a text name."""
    return dimensions.names(word for _, bounds in rules(text) for word in bounds)


def unfit(dims: Mapping[str, str], lengths: Dimensions, tunables: Tunables = NONE) -> str:
    """The first dimension whose length its rules do not allow, with what they say; "" for none."""
    for name, text in dims.items():
        if name not in lengths or any(other not in lengths and other not in tunables for other in names(text)):
            continue
        length = lengths[name][0]
        if not all(_allows(kind, case, length) for kind, case in _cases(rules(text), lengths, tunables)):
            values = {other: " or ".join(map(str, tunables.get(other) or lengths[other])) for other in names(text)}
            where = "".join(f", where {other} is {said}" for other, said in values.items())
            near = _near(choices({name: text}, name, lengths, tunables) or (), length)
            return f"{name} is {length}, but dims says {text!r}{where}{f'; give {near}' if near else ''}"
    return ""


def choices(dims: Mapping[str, str], name: str, lengths: Dimensions, tunables: Tunables = NONE) -> Sequence[int] | None:
    """The lengths, in ascending order, that a dimension may have beside these of the others; None: any.

    Rules of others that are about this dimension alone count too, such as that of `k` in "at most cols" for `cols`.
    """
    mine = list(rules(dims[name])) if name in dims else []
    for other, text in dims.items():
        mine += [
            (_OTHER_WAY[kind], (other,)) for kind, bounds in rules(text) if bounds == (name,) and kind in _OTHER_WAY
        ]
    if not mine:
        return None
    low, high, step, lists = 0, MOST, 1, list[list[int]]()
    for kind, numbers in _cases(mine, lengths, tunables):
        first = numbers[0]
        if kind == "at least":
            low = max(low, first)
        elif kind == "at most":
            high = min(high, first)
        elif kind == "multiple of":
            step = lcm(step, max(first, 1))
        elif kind == "power of":
            lists.append([1 << i for i in range(MOST.bit_length())])
        elif kind == "one of":
            lists.append(sorted(set(numbers)))
        elif first > 0:
            lists.append(_divisors(first))
    every = range(-(-low // step) * step, high + 1, step)
    if not lists:
        return every
    return [n for n in lists[0] if n in every and all(n in more for more in lists[1:])]


def _allows(kind: str, bounds: Sequence[int], length: int) -> bool:
    (first, *_) = bounds
    return {
        "multiple of": lambda: length % max(first, 1) == 0,
        "divisor of": lambda: first == 0 or (length > 0 and first % length == 0),
        "at least": lambda: length >= first,
        "at most": lambda: length <= first,
        "power of": lambda: length > 0 and length & (length - 1) == 0,
        "one of": lambda: length in bounds,
    }[kind]()


def _cases(rules: Iterable[Rule], lengths: Dimensions, tunables: Tunables) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The rules with numbers as bounds: one for each combination of the values of tunables that a rule names."""
    for kind, bounds in rules:
        own = [name for name in dimensions.names(bounds) if name in tunables]
        for values in product(*(tunables[name] for name in own)):
            known = lengths | {name: (value,) for name, value in zip(own, values, strict=True)}
            yield kind, tuple(n for word in bounds for n in dimensions.numbers(word, known))


def _near(allowed: Sequence[int], length: int) -> str:
    """The allowed lengths on both sides of one that is not, without 0."""
    at = bisect_left(allowed, length)
    return " or ".join(str(n) for n in allowed[max(at - 1, 0) : at + 1] if n)


@lru_cache(maxsize=256)
def _divisors(number: int) -> list[int]:
    small = [n for n in range(1, isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})
