"""The macro `scalar_t`: the C type of the dtype that a `.cu` is compiled for.

A `.cu` may declare `scalar_t` itself, as PyTorch's extensions do (`template <typename scalar_t>`). The macro would
break that, so the type has another name there, and only the names of entries (`scale<scalar_t>`) get it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from cudalab.spec import cuda_source

NAME, APART = "scalar_t", "CUDALAB_SCALAR_T"
# Lines after the text of such a `.cu`, before the names of its entries.
ALIAS = f"\n#ifdef {APART}\n#define {NAME} {APART}\n#endif\n"
_ASKS = re.compile(rf"^[ \t]*#[ \t]*(?:if|elif)[^\n]*\b{NAME}\b", re.MULTILINE)
_DECLARES = re.compile(rf"\b(?:typename|class)[\s.]+{NAME}\b|\busing\s+{NAME}\s*=|\btypedef\b[^;{{}}]*\b{NAME}\s*;")


def name_for(cu: Path) -> str:
    """The name of the macro for this `.cu`."""
    return APART if any(map(_declared, (cuda_source.read(cu), *cuda_source.headers(cu)))) else NAME


def alias(names: Iterable[str]) -> str:
    """`ALIAS` where one of these names of entries needs it, else ""."""
    return ALIAS if any(re.search(rf"\b{NAME}\b", name) for name in names) else ""


@lru_cache(maxsize=64)
def _declared(text: str) -> bool:
    """Whether the text declares `scalar_t`, and not only where there is no macro of this name."""
    if NAME not in text:
        return False
    code = cuda_source.blank_comments(text)
    return bool(_DECLARES.search(code)) and not _ASKS.search(code)
