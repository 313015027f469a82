"""How numbers are rounded and printed, everywhere in the lab.

One rule: what was measured has as many digits as its 95 % interval supports (`supported`): two to four for a median and
for a ratio of two, at most three for what is derived from them (a bandwidth, a share of the copy). A ratio
that says nothing (`Ratio.says_nothing`) is no number: it is printed as "?". Records keep every digit: these
functions return text.
"""

from __future__ import annotations

from math import floor, inf, log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cudalab.base.stats import Ratio

TIME_UNITS = (("s", 1.0), ("ms", 1e-3), ("\u00b5s", 1e-6))  # largest first
DERIVED = 3  # the most digits of a number that is derived from measured times
WIDE = 1.5  # the ends of an interval that spans this factor have digits of their own


def significant(value: float, digits: int) -> str:
    """`value` with so many significant digits, never in exponent form; zeros stand where digits were cut."""
    if value == 0:
        return "0"
    places = digits - 1 - floor(log10(abs(float(f"{value:.{digits}g}"))))  # of the rounded value: 0.9996 is 1.00
    return f"{round(value, places):,.{max(places, 0)}f}"


def three(value: float) -> str:
    """Three significant digits: 1,230, 12.3, 0.00123."""
    return significant(value, 3)


def supported(value: float, width: float, most: int = 4) -> str:
    """Two to `most` digits: as many as an interval of this width, relative to `value`, supports.

    Rounding moves the value by at most half of the interval, so the printed number stays inside it.
    """
    if value == 0 or width <= 0:
        return significant(value, most)
    first = floor(log10(abs(float(f"{value:.{most}g}"))))  # the place of the first digit, once rounded
    last = floor(log10(abs(value) * min(width, 1)))  # the place of the interval's own first digit
    last = min(max(last, first + 1 - most), first - 1)
    return f"{round(value, -last):,.{max(-last, 0)}f}"


def ratio(of: Ratio, most: int = 4) -> str:
    """How many times as fast, with the digits that the interval supports; "?" where it says nothing.

    Below a thousandth in exponent form: variants of a study may differ so much.
    """
    if of.says_nothing:
        return "?"
    return supported(of.value, (of.high - of.low) / of.value, most) if of.value >= 1e-3 else f"{of.value:.1e}"


def ends(low: float, high: float) -> str:
    """The two ends of an interval, such as "1.012 to 1.017": three to thirty steps of the last digit apart.

    Where the interval spans a factor of more than WIDE, each end has two digits of its own.
    """
    if high == inf:
        return "?"
    if high > WIDE * low:
        return " to ".join(significant(end, 2) if end >= 1e-3 or end == 0 else f"{end:.1e}" for end in (low, high))
    finest = 3 - floor(log10(high))
    places = min(finest, -floor(log10((high - low) / 3))) if high > low else finest
    return " to ".join(f"{round(end, places):,.{max(places, 0)}f}" for end in (low, high))


def interval(of: Ratio) -> str:
    """The ends of a ratio's interval; "?" where it was disturbed, since it then holds the load of other programs."""
    return "?" if of.disturbed else ends(of.low, of.high)


def with_ends(of: Ratio) -> str:
    """A ratio and its interval, such as "1.08 (1.06 to 1.10)"; "?" where neither is known."""
    return "?" if interval(of) == "?" else f"{ratio(of)} ({interval(of)})"


def percent(of: Ratio) -> str:
    """Return a ratio of two measured times in percent, without the sign: 99.6, 104."""
    scaled = 100 * of.value
    return "?" if of.says_nothing else supported(scaled, (of.high - of.low) / of.value, DERIVED)


def of_all(share: float) -> str:
    """A share of results in percent with four digits, such as "99.81 %"; 100 only where it is all of them."""
    text = f"{100 * share:.4g}"
    return f"{'99.99' if text == '100' and share < 1 else text} %"


def factor(ratio: float) -> str:
    """How many times as fast, of numbers without an interval, such as published ones: two decimals, one from 10 on."""
    if 0 < ratio < 1e-3:
        return f"{ratio:.1e}"
    if 0 < ratio < 0.0995:
        return significant(ratio, 2)
    return f"{ratio:.{2 if ratio < 9.995 else 1}f}"


def compact(value: float) -> str:
    """Return a short number: 0.5, 13, 12000, 1.6e+07."""
    return f"{value:.2g}" if value < 10 or value >= 1e5 else f"{value:.0f}"


def ulp(error: float | None, budget: float = 0.5) -> str:
    """An error in ULP; `None` or infinite: NaN or infinity came where a number was expected, or the other way round.

    Above the budget it has the digits that say so: 4.03 beside 4; and above half a ULP, where a result is no longer
    correctly rounded: 0.5003.
    """
    return "inf" if error is None or error == inf else above(error, max(budget, 0.5))


def above(value: float, limit: float) -> str:
    """`compact`, with as many digits as tell that `value` is above `limit`: 4.03 beside 4."""
    found = (compact(value), *(f"{value:.{digits}g}" for digits in range(3, 9)))
    return next((text for text in found if not value > limit or float(text) > limit), f"{limit:g}+")


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


def time(seconds: float, width: float) -> str:
    """Return a median with the digits that an interval of this relative width supports, and the unit: 1.36 s."""
    unit, scale = time_unit(seconds)
    return f"{supported(seconds / scale, width)} {unit}"


def duration(seconds: float) -> str:
    """For people who wait: under 1 s, 41 s, 2 min, 1 h 20 min."""
    if seconds < 0.5:
        return "under 1 s"
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
