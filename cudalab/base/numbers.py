"""How numbers are rounded and printed, everywhere in the lab.

The rule: a measured median has as many significant digits as its 95 % interval supports, two to four (`supported`).
What is derived from it has three (`three`), a ratio of two times has two decimals (`factor`). Records keep every digit:
these functions return text.
"""

from __future__ import annotations

from collections.abc import Callable
from math import floor, inf, log10

TIME_UNITS = (("s", 1.0), ("ms", 1e-3), ("\u00b5s", 1e-6))  # largest first


def significant(value: float, digits: int) -> str:
    """`value` with so many significant digits, never in exponent form; zeros stand where digits were cut."""
    if value == 0:
        return "0"
    places = digits - 1 - floor(log10(abs(value)))
    return f"{round(value, places):,.{max(places, 0)}f}"


def three(value: float) -> str:
    """Three significant digits: 1,230, 12.3, 0.00123."""
    return significant(value, 3)


def supported(value: float, width: float) -> str:
    """Two to four digits: as many as an interval of this width, relative to `value`, supports.

    Rounding moves the value by at most half of the interval, so the printed number stays inside it.
    """
    if value == 0 or width <= 0:
        return significant(value, 4)
    return significant(value, min(4, max(2, 1 + floor(log10(abs(value))) - floor(log10(abs(value) * min(width, 1))))))


def factor(ratio: float) -> str:
    """How many times as fast: two decimals, one from 10 on, two digits below a tenth."""
    if 0 < ratio < 0.0995:
        return significant(ratio, 2)
    return f"{ratio:.{2 if ratio < 9.995 else 1}f}"


def wide_factor(ratio: float) -> str:
    """`factor`, in exponent form below a thousandth: variants of a study may differ so much."""
    return factor(ratio) if ratio >= 1e-3 else f"{ratio:.1e}"


def close_factor(ratio: float) -> str:
    """`factor` of two times that are nearly equal: three decimals below 10."""
    return f"{ratio:.3f}" if ratio < 9.9995 else factor(ratio)


def interval(low: float, high: float, text: Callable[[float], str] = factor) -> str:
    """The two ends of a ratio's interval: 1.20 to 1.30."""
    return f"{text(low)} to {text(high)}"


def factor_in_words(ratio: float, digits: int) -> str:
    """So many digits for a sentence: 0.9996 with three is 1.00, not 1.000."""
    return significant(float(f"{ratio:.{digits}g}"), digits)


def compact(value: float) -> str:
    """A short number: 0.5, 13, 12000, 1.6e+07."""
    return f"{value:.2g}" if value < 10 or value >= 1e5 else f"{value:.0f}"


def ulp(error: float | None) -> str:
    """An error in ULP; `None` or infinite: NaN or infinity came where a number was expected, or the other way round."""
    return "inf" if error is None or error == inf else compact(error)


def amount(value: float) -> str:
    """Three digits and a prefix, to stand before a unit: "1.23 M", "12 "."""
    for prefix, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= scale:
            return f"{three(value / scale)} {prefix}"
    return f"{value:.0f} "


def count(value: float) -> str:
    """A quantity that may be whole: 12,345, else three digits; in exponent form from 1e15 on."""
    if abs(value) >= 1e15:
        return f"{value:.3g}"
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e6 else three(value)


def time_unit(least: float) -> tuple[str, float]:
    """The unit, and its seconds, in which a time of `least` seconds is at least 1; microseconds for shorter ones."""
    return next((unit for unit in TIME_UNITS if least >= unit[1]), TIME_UNITS[-1])


def time(seconds: float) -> str:
    """Three digits and the unit: 1.36 s."""
    unit, scale = time_unit(seconds)
    return f"{three(seconds / scale)} {unit}"


def duration(seconds: float) -> str:
    """For people who wait: under 1 s, 41 s, 2 min, 1 h 20 min."""
    if seconds < 0.5:
        return "under 1 s"
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
