"""How a number is rounded and printed."""

from __future__ import annotations

from math import floor, log10


def significant(value: float, digits: int) -> str:
    """`value` with so many significant digits, never in exponent form; zeros stand where digits were cut."""
    if value == 0:
        return "0"
    places = digits - 1 - floor(log10(abs(value)))
    return f"{round(value, places):,.{max(places, 0)}f}"


def three(value: float) -> str:
    return significant(value, 3)
