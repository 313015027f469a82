"""The compiler's names of functions that a spec names in C++, read from compiled code.

`entry_names.markers` has the compiler instantiate one function template per name. The mangled name of such an instance
contains that of the function asked for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from functools import lru_cache

from cudalab.base.errors import CompileError
from cudalab.device.kept_data import symbols
from cudalab.spec.entry_names import MARKER, asked

_MARKED = re.compile(rf"_Z{len(MARKER)}{MARKER}IXadL_Z(.*)EELi(\d+)EEvv", re.DOTALL)
_BACK = re.compile(r"S([0-9A-Z]*)_")  # a part that was there before, by its number (Itanium C++ ABI, substitutions)


@lru_cache(maxsize=64)
def of_names(code: bytes, names: Sequence[str]) -> dict[str, str]:
    """The compiler's name by the name that a spec gives; `names` are those with a marker in the source, in order.

    Raises CompileError for a function that the code lacks.
    """
    return among({name for name, place, _ in symbols(code) if place}, names)


def among(found: Set[str], names: Sequence[str]) -> dict[str, str]:
    """The same where all names of the code are known."""
    marked = {int(match[2]): match[1] for name in found if (match := _MARKED.fullmatch(name))}
    lowered = {}
    for i, name in enumerate(names):
        mine = [symbol for symbol in found if i in marked and _same(symbol, marked[i])]
        if base := {asked(name).base} & found:  # declared extern "C"
            mine = mine or list(base)
        if not mine:
            raise CompileError(f"the compiler generated no code for {name}; does an #if exclude it?")
        lowered[name] = mine[0]
    return lowered


def _same(symbol: str, within: str) -> bool:
    """Whether a marker's name contains this function. There its parts count from one on: the marker is part 0."""
    if not symbol.startswith("_Z") or _BACK.sub("S_", symbol[2:]) != _BACK.sub("S_", within):
        return False
    pairs = zip(_BACK.findall(symbol), _BACK.findall(within), strict=True)
    return all(one == other or _number(one) + 1 == _number(other) for one, other in pairs)


def _number(digits: str) -> int:
    return int(digits, 36) + 1 if digits else 0
