"""The grammar of `--size`.

small,large          names that the kernel's spec defines; also globs on them (*large), and all
1000  64K  1M  4Mi   a number of elements; K, M, G are powers of 1000 and Ki, Mi, Gi of 1024
2^20                 a power
4096x4096            a shape
2^[10:24:2]          2^10, 2^12, ... 2^24 (both ends included); [256:1024:256] likewise
fit  fit:0.5         the largest size whose run fits into a share of the memory, where the caller can tell it
64x1000,k=8          the sizes since the last `=`, with a length that is a scalar of the spec; alone: the usual sizes
"""

from __future__ import annotations

import fnmatch
import itertools
import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from cudalab.base.errors import InputError, short, unknown
from cudalab.spec.launch import Shape

MAX_ELEMENTS = 2**40  # no card holds more; a slip such as 2^240 must not reach an allocator
MAX_SIZES = 256
FIT = 0.8  # the share of the memory that a run at the size `fit` takes
MAX_DIMENSIONS = 32  # of an array of NumPy 1
MAX_LENGTH = 10_000  # characters: the time to parse a text grows with its square
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}

# Only ASCII digits: \d alone matches those of every script.
_NUMBER = re.compile(r"(\d{1,18})([kmg]i?)?", re.IGNORECASE | re.ASCII)
_POWER = re.compile(r"(\d{1,6})\^(\d{1,3})", re.ASCII)
_RANGE = re.compile(r"(?:(\d{1,6})\^)?\[(\d{1,18}):(\d{1,18})(?::(\d{1,18}))?\]", re.ASCII)
_LENGTH = re.compile(r"([A-Za-z_]\w*)\s*=\s*(.*)", re.ASCII)
_FIT = re.compile(r"fit(?::(.+))?", re.IGNORECASE)
_COMMA = re.compile(r",(?![^\[]*\])")  # not inside a range's brackets
USUAL = "small,large"  # what a bench measures
HELP = "use a name, a number (1000, 64K, 1Mi), a power (2^20), a shape (4096x4096) or a range (2^[10:24:2])"


class Size(NamedTuple):
    """A shape, and values of the scalars that are lengths, by name, where they are not the spec's.

    `fit`: the share of the memory that the size is to fill; the shape is then the largest named one.
    """

    shape: Shape
    lengths: tuple[tuple[str, int], ...] = ()
    fit: float = 0.0


def parse(text: str, named: Mapping[str, Shape], fit: bool = False) -> dict[str, Size]:
    """Sizes by label, in the order written, without repeats. Raises InputError or NotFound.

    Whether a kernel has the lengths that are given, `Sized.accepts` says. `fit`: whether the caller chooses a shape for
    the sizes that have a share of the memory.
    """
    if len(text) > MAX_LENGTH:
        raise InputError(f"--size has {len(text):,} characters, {MAX_LENGTH:,} at most; {HELP}")
    found: dict[str, Size] = {}
    for terms, lengths in _runs(text):
        shapes: dict[str, Shape] = {} if terms else usual(named)
        shares: dict[str, float] = {}
        for term in terms:
            if term not in named and (share := _fit(term, fit)):
                shares[term.lower()] = share
                shapes[term.lower()] = max(named.values(), key=math.prod, default=())
            else:
                shapes.update(_by_name(term, named) or _shapes(term, named))
            _few(shapes, text)
        for label, shape in shapes.items():
            for chosen in itertools.islice(itertools.product(*lengths.values()), MAX_SIZES + 1):
                given = tuple((name, n) for name, (_, n) in zip(lengths, chosen, strict=True))
                words = [f"{name}={word}" for name, (word, _) in zip(lengths, chosen, strict=True)]
                found[",".join((label, *words))] = Size(shape, given, shares.get(label, 0.0))
            _few(found, text)
    return found


def words(text: str) -> tuple[str, ...]:
    """Names and globs of sizes in a list as results name them, with the lengths behind each: `64x1000,k=8`."""
    found = []
    for terms, lengths in _runs(text):
        for chosen in itertools.product(*lengths.values()):
            behind = "".join(f",{name}={word}" for name, (word, _) in zip(lengths, chosen, strict=True))
            found += [f"{term}{behind}" for term in terms or ["*"]]
            _few(found, text)
    return tuple(found)


def _fit(term: str, taken: bool) -> float:
    """The share of the memory that a term asks for; 0 for another term. Raises InputError."""
    match = _FIT.fullmatch(term)
    if not match:
        return 0.0
    if not taken:
        raise InputError(
            f"the size {short(term)} is for bench and check, which choose it; give {HELP.partition(' ')[2]}"
        )
    text = match[1] or str(FIT)
    try:
        found = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= 1:
        raise InputError(f"{short(term)} has no share of the memory; give one above 0 and up to 1, such as fit:0.5")
    return found


def _few(found: Collection[str], text: str) -> None:
    if len(found) > MAX_SIZES:
        raise InputError(f"--size {short(text)} asks for more than {MAX_SIZES} sizes; use a larger step")


def _runs(text: str) -> Iterator[tuple[list[str], dict[str, list[tuple[str, int]]]]]:
    """The terms of sizes, and the lengths (their values with labels, by name) that are written behind them."""
    terms, lengths = list[str](), dict[str, list[tuple[str, int]]]()
    for term in (t.strip() for t in _COMMA.split(text)):
        if match := _LENGTH.fullmatch(term):
            lengths[match[1]] = lengths.get(match[1], []) + _length(term, match[2])
            continue
        if lengths:
            yield terms, lengths
            terms, lengths = [], {}
        terms.append(term)
    yield terms, lengths


def _length(term: str, text: str) -> list[tuple[str, int]]:
    """The values, with labels, of a length such as `k=8` or `k=2^[0:4]`."""
    if not (values := _factor(text.lower())):
        raise InputError(f"cannot read {short(term)}; give a number, a power or a range: k=8, k=2^10, k=[8:64:8]")
    if bad := [n for _, n in values if not 1 <= n <= MAX_ELEMENTS]:
        raise InputError(f"{short(term)} is a length of {short(bad[0])}; give one between 1 and 2^40")
    return values


def usual(named: Mapping[str, Shape]) -> dict[str, Shape]:
    """The sizes that a bench measures if none are asked for: small and large, or all of a spec that has neither."""
    return {name: named[name] for name in USUAL.split(",") if name in named} or dict(named)


def _by_name(term: str, named: Mapping[str, Shape]) -> dict[str, Shape]:
    """The named sizes that a name, a glob or `all` stands for; none for the other forms."""
    if term in named:
        return {term: named[term]}
    glob = "*" if term == "all" else term
    fitting = fnmatch.filter(named, glob) if "*" in glob or "?" in glob else []
    if not fitting and glob != term:
        raise unknown("size", term, named)
    return {name: named[name] for name in fitting}


def _shapes(term: str, named: Mapping[str, Shape]) -> dict[str, Shape]:
    factors = [_factor(f) for f in term.lower().split("x")]
    if not all(factors):
        if re.fullmatch(r"[a-z_]\w*", term, re.IGNORECASE):
            raise unknown("size", term, named)
        raise InputError(f"cannot read size {short(term)}; {HELP}")
    if len(factors) > MAX_DIMENSIONS:
        raise InputError(f"size {short(term)} has {len(factors)} dimensions; an array has {MAX_DIMENSIONS} at most")
    shapes = {}
    for combination in itertools.islice(itertools.product(*factors), MAX_SIZES + 1):
        shape = tuple(n for _, n in combination)
        elements = 1
        for n in shape:
            elements *= n
        if not 1 <= elements <= MAX_ELEMENTS:
            count = f"{elements:.3g}" if elements < 2**1000 else "far too many"  # beyond the largest float
            raise InputError(f"size {short(term)} has {count} elements; between 1 and 2^40 can be measured")
        shapes["x".join(label for label, _ in combination)] = shape
    return shapes


def _factor(text: str) -> list[tuple[str, int]]:
    """(label, value) of each value that one factor of a shape stands for; empty if it cannot be read."""
    if match := _NUMBER.fullmatch(text):
        return [(text, int(match[1]) * UNITS[match[2] or ""])]
    if match := _POWER.fullmatch(text):
        return [(text, int(match[1]) ** int(match[2]))]
    if match := _RANGE.fullmatch(text):
        first, last, step = int(match[2]), int(match[3]), int(match[4] or 1)
        if step == 0 or first > last or (match[1] and last > 999):
            raise InputError(f"cannot read range {short(text)}: write [first:last:step] with first <= last, step >= 1")
        steps = itertools.islice(range(first, last + 1, step), MAX_SIZES + 1)
        return [(f"{match[1]}^{e}", int(match[1]) ** e) if match[1] else (str(e), e) for e in steps]
    return []
