"""Make text from files and users safe for a terminal and valid as UTF-8."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

QUESTION = re.compile(r" \([^()]*\?\)$")  # that ends a message, such as " (NaN: was every element written?)"
_QUESTIONS = re.compile(r" \([^()]*\?\)")

# Unicode categories: control characters (escape sequences start with one), format characters (some change the writing
# direction), surrogates, line and paragraph separators.
UNSAFE = ("Cc", "Cf", "Cs", "Zl", "Zp")


def without_questions(text: str) -> str:
    """A message without the guesses at its cause, for one whose cause is known."""
    return _QUESTIONS.sub("", text)


def visible(text: str, keep: str = "") -> str:
    r"""Replace the characters that a terminal obeys or cannot show by escapes such as \x1b, except those in `keep`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in keep or unicodedata.category(c) not in UNSAFE else _escape(c) for c in text)


def visible_json(text: str) -> str:
    r"""Replace the same characters in a text of JSON, but line breaks, by JSON's own escapes such as \u009b."""
    if text.isascii():  # JSON has none of them unescaped but DEL
        return text.replace("\x7f", "\\u007f")
    return "".join(c if c == "\n" or unicodedata.category(c) not in UNSAFE else json.dumps(c)[1:-1] for c in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def encodable(tree: Any) -> Any:
    """Replace lone surrogates, which UTF-8 cannot encode, by escapes in all texts of nested dicts and lists."""
    if isinstance(tree, dict):
        return {encodable(key): encodable(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [encodable(value) for value in tree]
    return tree.encode("utf-8", "backslashreplace").decode("utf-8") if isinstance(tree, str) else tree
