"""The table of a run that only checked, and the lines below it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cudalab.base import numbers
from cudalab.report import below_tables
from cudalab.report.below_tables import ALLOWED
from cudalab.report.columns import NOT_MEASURED
from cudalab.results import record
from cudalab.results.record import Case, Results

CHECK_HEADERS = ["kernel", "dtype", "variant", "verdict", "max ULP", ALLOWED, "rounded", "rel. error", "shapes"]


def check_rows(run: Results) -> list[tuple[list[str], list[Case]]]:
    """For a run that only checked: for each variant, cells in the order of CHECK_HEADERS and the cases behind them."""
    found: dict[tuple[str, str, str], list[Case]] = {}
    for case in run.cases:
        if case.status != record.SKIPPED:
            found.setdefault((case.kernel, case.dtype, case.label), []).append(case)
    return [([*key, *_sum_up(cases)], cases) for key, cases in found.items()]


def headers_and_rows(rows: Sequence[list[str]]) -> tuple[list[str], list[list[str]]]:
    """CHECK_HEADERS and rows of `check_rows`, without the columns in which no row has anything."""
    kept = [i for i in range(len(CHECK_HEADERS)) if not rows or any(row[i] != NOT_MEASURED for row in rows)]
    return [CHECK_HEADERS[i] for i in kept], [[row[i] for i in kept] for row in rows]


def _sum_up(cases: list[Case]) -> list[str]:
    bad = next((c.status for c in cases if c.status != record.OK), "right")
    parities = [c.parity for c in cases if c.parity and (c.parity.ok or c.parity.wrong)]
    if not parities:
        return [bad, *[NOT_MEASURED] * 4, str(len(cases))]
    n = sum(p.n for p in parities)
    rounded = sum(p.rounded * p.n for p in parities) / n if n else 1.0
    shown = below_tables.worst(cases)
    assert shown is not None and shown.parity is not None
    worst, budget = shown.parity, below_tables.BUDGET.search(shown.reason)
    largest = numbers.ulp(worst.largest, float(budget["ulp"]) if budget else 0.5)
    allowed = NOT_MEASURED if worst.allowed is None else _allowed(worst.allowed)
    far = max(p.rel_l2 for p in parities)
    unknown = not far and any(p.wrong for p in parities)  # only elements are wrong that are to be 0 or infinite
    relative = NOT_MEASURED if unknown else f"{far:.1e}"
    return [bad, largest, allowed, numbers.of_all(rounded), relative, str(len(cases))]


def _allowed(ulp: float) -> str:
    return below_tables.BY_ATOL if ulp > below_tables.FAR else numbers.compact(ulp)


NOTABLE = 4  # ULP; a few roundings make a smaller error
WORST = re.compile(r"\[.*\] (?P<values>got .*, want .*) for (?P<inputs>.*)", re.DOTALL)  # of check.parity


def largest_errors(run: Results) -> list[tuple[str, str]]:
    """(variants, element) of each largest error that is NOTABLE in a right answer, by kernel and dtype."""
    found: dict[tuple[str, str, str], list[str]] = {}
    every: dict[tuple[str, str], list[str]] = {}
    for (kernel, dtype, label, status, *_), cases in check_rows(run):
        every.setdefault((kernel, dtype), []).append(label)
        worst = max((c for c in cases if c.parity), key=lambda c: c.parity.largest if c.parity else 0.0, default=None)
        if worst and worst.parity and status == "right" and worst.parity.largest > NOTABLE:
            found.setdefault((kernel, dtype, _element(worst)), []).append(label)
    return [
        (f"{kernel} {dtype} {_in_short(labels, every[kernel, dtype])}", element)
        for (kernel, dtype, element), labels in found.items()
    ]


def of_checks(run: Results) -> list[tuple[str, str, str]]:
    """The lines below the table of a run that only checked, kernel by kernel: largest errors, then `remarks`."""
    said = [("largest error", labels, element) for labels, element in largest_errors(run)]
    said += below_tables.remarks(run.cases, placed=True)
    kernels = sorted({case.kernel for case in run.cases}, key=len, reverse=True)  # "softmax 2" before "softmax"
    order = [case.kernel for case in run.cases]

    def place(line: tuple[str, str, str]) -> int:
        return next((order.index(kernel) for kernel in kernels if line[1].startswith(f"{kernel} ")), len(order))

    return sorted(said, key=place)


def _element(case: Case) -> str:
    """The input, got and wanted; the size and the index where the inputs are not recorded."""
    assert case.parity is not None
    known = WORST.fullmatch(case.parity.worst)
    if known is None:
        return f"{case.size} {case.parity.worst}"
    return f"{_float32s(known['inputs']) if case.dtype == 'float32' else known['inputs']}: {known['values']}"


def _float32s(inputs: str) -> str:
    """Numbers rounded to nine digits, enough to distinguish all float32 values."""
    return re.sub(r"-?\d+\.\d{8,}(e[-+]\d+)?", lambda number: f"{float(number[0]):.9g}", inputs)


def _in_short(labels: list[str], every: list[str]) -> str:
    """`labels` in short: a backend's name for all of its variants, "all" for all of `every`."""
    if len(labels) == len(every) > 1:
        return "all"

    def backend(label: str) -> str:
        name = label.partition(":")[0]
        own = {other for other in every if other.partition(":")[0] == name}
        return name if own <= set(labels) else label

    return ", ".join(dict.fromkeys(map(backend, labels)))
