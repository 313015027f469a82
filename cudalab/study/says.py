"""Numbers of a study's run as text, for its finding and for tables. "?" stands for what was not measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cudalab.base import numbers, stats
from cudalab.base.numbers import three
from cudalab.results.record import Case, Results
from cudalab.study import found


def case(run: Results, size: str, label: str) -> Case | None:
    """The row of a variant at a size, if it was run."""
    return next((c for c in run.cases if (c.size, c.label) == (size, label)), None)


def main_kind(run: Results) -> str:
    """The kind of time of the ratios: the first of the study's kinds that the run has."""
    return run.main_kind


def speedup(run: Results, one: Case, kind: str = "") -> stats.Ratio | None:
    """The ratio to the study's baseline in the same workload; None if one of the times is missing."""
    study = found.of(run)
    return run.speedup(one, kind or main_kind(run), study.baseline)


def factor(run: Results, size: str, label: str, kind: str = "") -> str:
    """`speedup` as text, such as "1.82 times"."""
    one = case(run, size, label)
    return in_words(speedup(run, one, kind) if one else None)


def in_words(ratio: stats.Ratio | None) -> str:
    """A ratio as text: "1.82 times", or with its interval if that is wide: "4.7 times (0.44 to 66)"."""
    if ratio is None:
        return "?"
    if ratio.vague:
        value, low, high = (numbers.factor_in_words(of, 2) for of in (ratio.value, ratio.low, ratio.high))
        return f"{value} times ({low} to {high})"
    return f"{numbers.factor_in_words(ratio.value, 3)} times"


def listed(ways: Mapping[str, str], than: str = "as fast") -> str:
    """Factors by their conditions as one text: "1.82 times as fast with 2 workers, 3.10 times with 4"."""
    return ", ".join(f"{factor} {'' if i else f'{than} '}{way}" for i, (way, factor) in enumerate(ways.items()))


def gains(run: Results, label: str, kind: str = "") -> str:
    """A variant's `factor` at each size: "1.82 times as fast at small, 1.10 times at large"."""
    return listed({f"at {size}": factor(run, size, label, kind) for size in sizes(run)})


def at_sizes(run: Results, say: Callable[[str], str]) -> str:
    """`say(size)` for each size that was timed, with its name: "1.82 times at small; ..."."""
    return "; ".join(f"{say(size)} at {size}" for size in sizes(run))


def parameter(run: Results, size: str, name: str) -> Any:
    """The value of `lab[name]` in the run: a parameter of the size, or a setting; None if there is none."""
    settings = run.options.get("settings")
    return {**(settings if isinstance(settings, dict) else {}), **found.of(run).sizes.get(size, {})}.get(name)


def ran(run: Results, size: str, label: str) -> bool:
    """Whether a variant was timed at a size."""
    one = case(run, size, label)
    return bool(one and one.times)


def sizes(run: Results) -> list[str]:
    """The sizes of the run in which something was timed, in its order."""
    return list(dict.fromkeys(c.size for c in run.cases if c.times))


def counted(run: Results, size: str, label: str, name: str) -> float | None:
    """A quantity of a row, or None."""
    one = case(run, size, label)
    return one.quantities.get(name) if one else None


def share(run: Results, size: str, label: str, name: str) -> str:
    """A quantity as a share of the baseline's, such as "41 %"."""
    got, base = (counted(run, size, of, name) for of in (label, found.of(run).baseline))
    return "?" if got is None or not base else f"{three(100 * got / base)} %"


def rate(run: Results, size: str, label: str) -> str:
    """Items per second, such as "1,230"."""
    one, kind = case(run, size, label), main_kind(run)
    seconds = one.median(kind) if one else None
    items = counted(run, size, label, "items")
    return "?" if not seconds or not items else three(items / seconds)


def ratio(run: Results, size: str, label: str, to: str, kind: str = "") -> str:
    """How many times as fast a variant is as `to`, another one of its workload, as text."""
    one, base, kind = case(run, size, label), case(run, size, to), kind or main_kind(run)
    if not one or not base or not one.times.get(kind) or not base.times.get(kind):
        return "?"
    return in_words(run.ratio(base, one, kind))


def took(run: Results, size: str, label: str, kind: str = "") -> str:
    """A variant's median time with its unit, such as "1.36 s"."""
    one = case(run, size, label)
    seconds = one.median(kind or main_kind(run)) if one else None
    if not seconds:
        return "?"
    return numbers.time(seconds)
