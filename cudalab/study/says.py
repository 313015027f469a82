"""Numbers of a study's run as text, for its finding and for tables. "?" stands for what was not measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
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


def baseline(run: Results) -> str:
    """The label that the run's ratios refer to. An older file may have another one than the study."""
    return str(run.options.get("baseline") or found.study_of(run).baseline)


def speedup(run: Results, one: Case | None, kind: str = "") -> stats.Ratio | None:
    """The ratio to the run's baseline in the same workload; None if there is no such row or one of the times is
    missing."""
    return run.speedup(one, kind or main_kind(run), baseline(run)) if one else None


def factor(run: Results, size: str, label: str, kind: str = "") -> str:
    """`speedup` as text, such as "1.82 times (1.80 to 1.84, FASTER)"."""
    return in_words(speedup(run, case(run, size, label), kind))


def in_words(ratio: stats.Ratio | None, verdict: str = "") -> str:
    """A ratio as text, with its interval and its verdict: "1.82 times (1.80 to 1.84, FASTER)"."""
    if ratio is None:
        return "?"
    interval, verdict = numbers.interval(ratio), verdict or ratio.verdict()
    if ratio.disturbed:
        return f"an unknown number of times (the machine was busy, {verdict})"
    if ratio.says_nothing:
        return f"{interval} times ({verdict})"
    return f"{numbers.ratio(ratio)} times ({interval}, {verdict})"


def longer(ratio: stats.Ratio) -> str:
    """A speed-up inverted, for "as long", with its own verdict: "3.30 times (3.25 to 3.34, SLOWER)"."""
    return in_words(inverse(ratio), ratio.verdict())


def inverse(ratio: stats.Ratio) -> stats.Ratio:
    """How many times as long, of how many times as fast."""
    return replace(ratio, value=1 / ratio.value, low=1 / ratio.high, high=1 / ratio.low)


def listed(ways: Mapping[str, str], than: str = "as fast") -> str:
    """Factors by their conditions as one text: "1.82 times (...) as fast with 2 workers, 3.10 times (...) with 4"."""
    return ", ".join(f"{factor} {'' if i else f'{than} '}{way}" for i, (way, factor) in enumerate(ways.items()))


def gains(run: Results, label: str, kind: str = "") -> str:
    """A variant's `factor` at each size: "1.82 times (...) as fast at small, 1.10 times (...) at large"."""
    return listed({f"at {size}": factor(run, size, label, kind) for size in sizes(run)})


def at_sizes(run: Results, say: Callable[[str], str]) -> str:
    """`say(size)` for each size that was timed, with its name: "1.82 times at small; ..."."""
    return "; ".join(f"{say(size)} at {size}" for size in sizes(run))


def parameter(run: Results, size: str, name: str) -> Any:
    """The value of `lab[name]` in the run: a parameter of the size, or a setting; None if there is none."""
    settings = run.options.get("settings")
    return {**(settings if isinstance(settings, dict) else {}), **found.study_of(run).sizes.get(size, {})}.get(name)


def ran(run: Results, size: str, label: str) -> bool:
    """Whether a variant was timed at a size."""
    one = case(run, size, label)
    return bool(one and one.times)


def sizes(run: Results) -> list[str]:
    """The sizes of the run in which something was timed, in its order."""
    return list(dict.fromkeys(c.size for c in run.cases if c.times))


def counted(run: Results, size: str, label: str, name: str) -> float | None:
    """Return a quantity of a row, or None."""
    one = case(run, size, label)
    return one.quantities.get(name) if one else None


def share(run: Results, size: str, label: str, name: str) -> str:
    """A quantity as a share of the baseline's, such as "41 %"."""
    got, base = (counted(run, size, of, name) for of in (label, baseline(run)))
    return "?" if got is None or not base else f"{three(100 * got / base)} %"


def rate(run: Results, size: str, label: str) -> str:
    """Items per second, such as "1,230"."""
    one = case(run, size, label)
    return (items_per_second(one, main_kind(run)) if one else "") or "?"


def items_per_second(one: Case, kind: str) -> str:
    """The throughput with the digits that the time's interval supports; "" where none was counted or timed."""
    items, timing = one.quantities.get("items"), one.timing(kind)
    return numbers.supported(items / timing.median, timing.width, numbers.DERIVED) if items and timing else ""


def between(run: Results, size: str, label: str, to: str, kind: str = "") -> stats.Ratio | None:
    """How many times as fast a variant is as `to`, another one of its workload; None if a time is missing."""
    one, base, kind = case(run, size, label), case(run, size, to), kind or main_kind(run)
    if not one or not base or not one.times.get(kind) or not base.times.get(kind):
        return None
    return run.ratio(base, one, kind)


def ratio(run: Results, size: str, label: str, to: str, kind: str = "") -> str:
    """`between` as text."""
    return in_words(between(run, size, label, to, kind))


def took(run: Results, size: str, label: str, kind: str = "") -> str:
    """A variant's median time with its unit, such as "1.36 s"."""
    one = case(run, size, label)
    timing = one.timing(kind or main_kind(run)) if one else None
    return numbers.time(timing.median, timing.width) if timing else "?"
