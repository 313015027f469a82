"""Comments, strings and preprocessor lines of a `.cu`."""

from __future__ import annotations

import re
from functools import lru_cache

DIRECTIVE = re.compile(r"(?m)^[ \t]*#(?:[^\n\\]|\\.|\\\n)*")
# Comments, strings and characters. One that is not closed extends to the end, so that a failing search is done once.
_UNREAD = re.compile(
    r"//(?:[^\n\\]|\\.)*"
    r"|/\*.*?(?:\*/|\Z)"
    r'|\b(?:u8|[uUL])?R"(?P<mark>[^()\\\s"]{0,16})\(.*?(?:\)(?P=mark)"|\Z)'
    r'|"(?:[^"\\\n]|\\.)*"?'
    r"|'(?:[^'\\\n]|\\[^\n]{1,9}?)'",  # short: in 1'000'000 there is no character
    re.DOTALL,
)


def blank_comments(text: str) -> str:
    """`text` with spaces for every comment and string (but not "C"), so that offsets and lines stay the same."""
    return blanked(_UNREAD, text)


@lru_cache(maxsize=64)  # one text is asked about again for each set of operands that a kernel is launched on
def blanked(what: re.Pattern[str], text: str) -> str:
    """`text` with spaces for what a pattern finds, lines kept."""
    return what.sub(lambda m: m[0] if m[0] == '"C"' else re.sub(r"[^\n]", " ", m[0]), text)
