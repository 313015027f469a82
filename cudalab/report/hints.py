"""What a spec may say where libraries' forms of a kernel are WRONG by the budget of its entries."""

from __future__ import annotations

from math import inf

from cudalab.results import record
from cudalab.results.record import Case, Results

FIELDS = {  # the budget that judges a row, and what it is for
    "composed": "variants that round to the dtype at each step",
    "peers": "NumPy, rivals and library calls in one pass",
}


def budgets(run: Results) -> list[str]:
    """One line for each budget that a spec may widen: rows of libraries are WRONG by it, and every entry is right.

    Where a library gives infinity or NaN no budget helps, and the line says what does.
    """
    by_kernel: dict[str, list[Case]] = {}
    for case in () if run.of_study else run.cases:
        if case.status != record.SKIPPED:
            by_kernel.setdefault(case.kernel, []).append(case)
    found: dict[tuple[str, str], dict[str, None]] = {}
    for kernel, cases in by_kernel.items():
        entries = [case for case in cases if case.backend in record.ENTRIES]
        if not entries or any(c.status != record.OK for c in entries):
            continue
        for case in cases:
            if case.status == record.WRONG and case.parity is not None and case.parity.wrong:  # no stray write
                field = "" if case.parity.largest == inf else "composed" if case.composed else "peers"
                found.setdefault((kernel, field), {})[case.label] = None
    return [
        f"{', '.join(labels)} of {kernel}: WRONG, and every entry is right. {_advice(field)}; or leave out what is "
        f"WRONG: --skip {','.join(labels)}."
        for (kernel, field), labels in found.items()
    ]


def _advice(field: str) -> str:
    if not field:
        return "No budget allows inf or NaN in place of a number: write it so that no intermediate result overflows"
    return (
        f"If a library need not be as exact, give {FIELDS[field]} a budget of their own in the spec: "
        f"{field}=Budget(ulp, atol, why)"
    )
