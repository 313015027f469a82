"""The errors of a kernel's variants in a file of results, beside the budgets of its spec."""

from __future__ import annotations

from cudalab import backends
from cudalab.base import numbers
from cudalab.results import rivals
from cudalab.results.record import Case, Results
from cudalab.spec import find
from cudalab.spec.budget import Budget
from cudalab.spec.dtype import DTYPES
from pages.committed import table

ULP = (
    "Against float64, over all sizes. Near 0 a ULP is tiny: there the absolute part of a budget allows large errors. "
    "Budgets are those of today's spec."
)


def listed(run: Results) -> str:
    """For each dtype the errors over all sizes, and the budgets, of ours and then of each rival."""
    found: dict[str, dict[str, list[Case]]] = {}
    for case in run.cases:
        if case.parity and (case.backend in rivals.OURS or case.backend not in rivals.NO_RIVALS):
            found.setdefault(case.dtype, {}).setdefault(case.label, []).append(case)
    lines = [
        [dtype, f"`{label}`", *summed_up(cases), budget(cases[0])]
        for dtype, by_label in found.items()
        for label, cases in sorted(by_label.items(), key=lambda one: one[1][0].backend not in rivals.OURS)
    ]  # fmt: skip
    head = ["dtype", "variant", "max ULP", "correctly rounded", "budget, ULP"]
    return f"{ULP}\n\n{table(head, lines, 2)}"


def summed_up(cases: list[Case]) -> list[str]:
    """The largest error over all sizes, and the share of all their results that is correctly rounded."""
    parities = [case.parity for case in cases if case.parity]
    n = sum(p.n for p in parities)
    rounded = sum(p.rounded * p.n for p in parities) / n if n else 1.0
    return [numbers.ulp(max(p.largest for p in parities)), numbers.of_all(rounded)]


def budget(case: Case) -> str:
    """The budget that the spec has for a variant today, of each output where they differ, and whose it is."""
    backend = backends.by_name().get(case.backend)
    whose = "composed" if case.composed else backend.budget if backend else "peers"
    held = find.kernel(case.kernel).all_budgets(DTYPES[case.dtype], whose)
    said = {name: tolerance(budget) for name, budget in held.items()}
    alike = len({*said.values()}) == 1
    each = next(iter(said.values())) if alike else ", ".join(f"`{name}` {one}" for name, one in said.items())
    return f"{each} ({whose})"


def tolerance(budget: Budget) -> str:
    atol = "a share of its terms" if callable(budget.atol) else f"{budget.atol:g} absolute"
    return f"{numbers.compact(budget.ulp)}{f' or {atol}' if budget.atol else ''}"
