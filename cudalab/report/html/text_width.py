"""How wide a text is in Arial, Helvetica or Liberation Sans, which are equally wide.

Charts are laid out for these. A viewer that has none of them takes a wider font: a long text then says its length in
the drawing, and is squeezed into it instead of being cut off.
"""

from __future__ import annotations

import re

# Of the characters from the space to the tilde, in thousandths of the font's size: Adobe's Helvetica.afm, -Bold.afm.
_REGULAR = (
    "278 278 355 556 556 889 667 191 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 556 556 556 278 278 "
    "584 584 584 556 1015 667 667 722 722 667 611 778 722 278 500 667 556 833 722 778 667 778 722 667 611 722 667 944 "
    "667 667 611 278 278 278 469 556 333 556 556 500 556 556 278 556 556 222 222 500 222 833 556 556 556 556 333 500 "
    "278 556 500 722 500 500 500 334 260 334 584"
)
_BOLD = (
    "278 333 474 556 556 889 722 238 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 556 556 556 333 333 "
    "584 584 584 611 975 722 722 722 722 667 611 778 722 278 556 722 611 833 722 778 667 778 722 667 611 722 667 944 "
    "667 667 611 333 278 333 584 556 333 556 611 556 611 556 333 611 611 278 278 556 278 889 611 611 611 611 389 556 "
    "333 611 556 778 556 556 500 389 280 389 584"
)
_WIDTHS = {bold: [int(n) for n in text.split()] for bold, text in ((False, _REGULAR), (True, _BOLD))}
_OTHERS = {"\u2026": 1000, "\u00b5": 576, "\u00d7": 584, "\u00b7": 333}


def width(text: str, size: float, bold: bool) -> float | None:
    """The width in pixels; None for a text with characters that are not known."""
    known = _WIDTHS[bold]
    found = [known[ord(c) - 32] if " " <= c <= "~" else _OTHERS.get(c) for c in text]
    widths = [w for w in found if w is not None]
    return size * sum(widths) / 1000 if len(widths) == len(found) else None


def cut(text: str, wide: float, size: float, bold: bool) -> str:
    """`text`, if it is at most so wide, else its beginning with an ellipsis. An unknown character is a square."""
    if reach(text, size, bold) <= wide:
        return text
    while text and reach(text + "\u2026", size, bold) > wide:
        text = text[:-1]
    return text + "\u2026"


def reach(text: str, size: float, bold: bool = False) -> float:
    """The width in pixels at most: an unknown character is a square."""
    return sum(width(c, size, bold) or size for c in text)


def wrapped(text: str, wide: float, size: float, bold: bool = False) -> list[str]:
    """`text` in lines of at most this width, cut after spaces and underscores, or anywhere in a longer word."""
    lines = [""]
    for word in re.findall(r"[^ ]* |[^ ]+", text):
        pieces = [word]
        if reach(word.rstrip(), size, bold) > wide:
            pieces = [p for part in re.findall(r"[^_]*_|[^_]+", word)
                      for p in ([part] if reach(part, size, bold) <= wide else part)]  # fmt: skip
        for piece in pieces:
            if lines[-1] and reach((lines[-1] + piece).rstrip(), size, bold) > wide:
                lines.append("")
            lines[-1] += piece
    return [line.rstrip() for line in lines]
