"""Text that comes from files and from users, made fit for a terminal and for UTF-8."""

from __future__ import annotations

import unicodedata
from typing import Any

# Control characters (an escape sequence begins with one), those that turn the writing direction, halves of characters.
UNSAFE = ("Cc", "Cf", "Cs", "Zl", "Zp")


def visible(text: str, keep: str = "") -> str:
    r"""`text` with what a terminal would obey or could not show as escapes, such as \x1b; but for those in `keep`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in keep or unicodedata.category(c) not in UNSAFE else _escape(c) for c in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def encodable(tree: Any) -> Any:
    """Nested dicts and lists in which halves of surrogate pairs, which UTF-8 has no bytes for, are escapes."""
    if isinstance(tree, dict):
        return {encodable(key): encodable(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [encodable(value) for value in tree]
    return tree.encode("utf-8", "backslashreplace").decode("utf-8") if isinstance(tree, str) else tree
