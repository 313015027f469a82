"""What a spec may say where libraries' forms of a kernel are WRONG by the budget of its entries."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from cudalab.base import numbers
from cudalab.checks.parity import NEAR_0
from cudalab.results import record
from cudalab.results.record import Case, Results

OTHER = "other"  # the row computes something else
FIELDS = {  # the budget that judges a row, and what it is for
    "composed": "variants that round to the dtype at each step",
    "peers": "NumPy, rivals and library calls in one pass",
}


def budgets(run: Results) -> list[str]:
    """One line for each budget that a spec may widen: rows of libraries are WRONG by it, and every entry is right.

    Where a library gives infinity or NaN no budget helps, and the line says what does. A row that the proposed budget
    takes has no line.
    """
    enough = {group: ulp for group, (ulp, _) in _proposed(run).items()}
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
                needed = inf if case.parity.needed is None else case.parity.needed
                if not case.composed and needed <= enough.get((kernel, case.dtype), 0):
                    continue
                field = "" if case.parity.largest == inf else "composed" if case.composed else "peers"
                field = field if case.close else OTHER
                found.setdefault((kernel, field), {})[case.label] = None
    return [
        f"{', '.join(labels)} of {kernel}: WRONG, and every entry is right. {_advice(field)}; or leave out what is "
        f"WRONG: --skip {','.join(labels)}."
        for (kernel, field), labels in found.items()
    ]


NEAR = 8  # times NumPy's error in float32: an entry that errs by more has another fault than rounding
FEW = 2  # lengths that are right, and that are wrong, at least
STEPS = tuple(2**i for i in range(1, 11))  # what tiles and vectors are multiples of
MARGIN = 1.5  # times the largest error that was seen


def proposals(run: Results) -> list[str]:
    """For entries or NumPy that are WRONG by rounding alone, a budget by which both would be right."""
    return [line for _, line in _proposed(run).values()]


def _proposed(run: Results) -> dict[tuple[str, str], tuple[float, str]]:
    """By kernel and dtype the ULP that are enough for the entries and NumPy, and the line that says so."""
    found: dict[tuple[str, str], dict[bool, list[Case]]] = {}
    for case in () if run.of_study else run.cases:
        if case.parity is not None and (case.backend == "numpy" or case.backend in record.ENTRIES):
            found.setdefault((case.kernel, case.dtype), {}).setdefault(case.backend == "numpy", []).append(case)
    told = {}
    for (kernel, dtype), sides in found.items():
        numpy, ours = _seen(sides.get(True, [])), _seen(sides.get(False, []))
        wrong = {side for side, cases in sides.items() for case in cases if case.status == record.WRONG}
        if not wrong or not 0 < ours <= NEAR * numpy < NEAR * record.MANY:
            continue
        enough = next(ulp for ulp in (0.5 * 2**i for i in range(64)) if ulp >= MARGIN * max(numpy, ours))
        line = (
            f"{kernel} {dtype}: numpy {numbers.ulp(numpy)} ULP, yours {numbers.ulp(ours)}: Budget({enough:g}) takes "
            "both, if they differ by rounding alone"
        )
        libraries = (
            ""
            if False in wrong
            else f"; for NumPy and libraries alone, or where the spec has peers= already: "
            f"peers=Budget({enough:g}, why=...)"
        )
        told[kernel, dtype] = enough, f"{line}{libraries}."
    return told


def multiples(run: Results) -> list[str]:
    """For entries that are right wherever a length of the first input is a multiple, and nowhere else, what to write.

    `shape` is that of the first input. Special inputs, moved arrays and sizes that the check chose say nothing of it.
    """
    found: dict[tuple[str, str], list[Case]] = {}
    for case in () if run.of_study else run.cases:
        if case.backend in record.ENTRIES and "," not in case.size and case.status != record.SKIPPED:
            found.setdefault((case.kernel, case.label), []).append(case)
    return [
        f"{kernel}, {label}: right where length {axis + 1} of the first input is a multiple of {most}, and wrong where "
        f"it is none of {least}: is the rest of a row or of a vector missing? If it is to be so, say it of that "
        f'dimension: dims={{"NAME": "multiple of {most}"}}.'
        for (kernel, label), cases in found.items()
        for axis, least, most in _multiple(cases)
    ]


def _multiple(cases: Sequence[Case]) -> list[tuple[int, int, int]]:
    """The axis of the shapes, and the least and the largest step, whose multiples alone are right; none if unclear.

    It is unclear where a wrong length lies between no two right ones: too many or too few elements may be the cause.
    """
    ranks = {len(case.shape) for case in cases}
    for axis in range(ranks.pop() if len(ranks) == 1 else 0):
        right = {case.shape[axis] for case in cases if case.status == record.OK}
        wrong = {case.shape[axis] for case in cases if case.status != record.OK}
        steps = [s for s in STEPS if not any(n % s for n in right) and all(n % s for n in wrong)]
        enough = min(len(right), len(wrong)) >= FEW
        if steps and enough and any(min(right) < n < max(right) for n in wrong):
            return [(axis, steps[0], steps[-1])]
    return []


def _seen(cases: Sequence[Case]) -> float:
    """The largest error in ULP beyond `atol`, of wrong results if there are any; infinite where that tells no budget.

    Errors near 0 need an `atol`, and of several outputs a row does not tell which budget is exceeded.
    """
    if any(c.status == record.ERROR or NEAR_0 in c.reason for c in cases):
        return inf
    found = [c.parity for c in cases if c.parity]
    if any(parity.worst and not parity.worst.startswith("[") for parity in found):
        return inf
    wrong = [parity.needed for parity in found if not parity.ok]
    return max((inf if ulp is None else ulp for ulp in wrong or [parity.largest for parity in found]), default=inf)


def _advice(field: str) -> str:
    if field == OTHER:
        return (
            "By more than rounding: does the form in the spec, such as torch=, or the reference compute something "
            "else, or has an input values that one of them does not expect? See inputs="
        )
    if not field:
        return "No budget allows inf or NaN in place of a number: write it so that no intermediate result overflows"
    return (
        f"If a library need not be as exact, give {FIELDS[field]} a budget of their own in the spec: "
        f"{field}=Budget(ulp, atol, why)"
    )
