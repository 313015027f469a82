"""What the lines below a table say of libraries that are WRONG where the entries are right."""

from __future__ import annotations

import re
from ast import literal_eval

import pytest
from msgspec.structs import replace
from tables import table

from cudalab import report
from cudalab.report import hints
from cudalab.results import record
from cudalab.results.record import Case, Machine, Parity, Results


def case(label, wrong=0, max_ulp=9.0, status="", **fields):
    backend, _, variant = label.partition(":")
    parity = Parity(ok=not wrong, n=99, wrong=wrong, max_ulp=max_ulp, close=wrong > 0)
    status = status or (record.WRONG if wrong else record.OK)
    return Case("gelu", "small", (99,), "float16", backend, variant, status=status, parity=parity, **fields)


def run(*cases):
    return Results(record.FORMAT, record.VERSION, "2026", {}, Machine("cpu", "a CPU"), cases=list(cases), kind="check")


def test_the_budget_that_judges_the_rows_is_named_with_what_to_write():
    found = run(
        case("host:a"), case("numpy"), case("torch_eager", 3, composed=True), case("torch_script", 3, composed=True),
        case("torch_native", 1), case("cupy_raw:a", status=record.SKIPPED),
    )  # fmt: skip
    composed, peers = hints.budgets(found)
    assert composed.startswith("torch_eager, torch_script of gelu: WRONG, and every entry is right.")
    assert "variants that round to the dtype at each step" in composed and "composed=Budget(ulp, atol, why)" in composed
    assert peers.startswith("torch_native of gelu: ") and "peers=Budget(ulp, atol, why)" in peers
    assert "composed=Budget(ulp, atol, why)" in report.render(found, "table")


@pytest.mark.parametrize(
    "others",
    [
        [case("host:b", 1)],  # an entry is WRONG as well
        [case("host:b", status=record.ERROR)],
    ],
)
def test_where_more_is_in_question_nothing_is_said(others):
    assert hints.budgets(run(case("host:a"), case("torch_eager", 3, composed=True), *others)) == []


def test_what_no_budget_takes_has_a_line_that_says_what_helps_or_none():
    (line,) = hints.budgets(run(case("host:a"), case("numpy", 5)))
    assert line.startswith("numpy of gelu: WRONG, and every entry is right.")
    assert "peers=Budget(ulp, atol, why)" in line and line.endswith("--skip numpy.")
    (line,) = hints.budgets(run(case("host:a"), case("torch_native", 3, None)))
    assert "No budget allows inf or NaN" in line and line.endswith("--skip torch_native.")
    (far := case("torch_native", 3)).parity.close = False
    (line,) = hints.budgets(run(case("host:a"), far))
    assert "By more than rounding: does the form in the spec" in line and line.endswith("--skip torch_native.")
    wrong = case("torch_eager", 0, status=record.WRONG)
    assert hints.budgets(run(case("host:a"), wrong)) == []
    assert hints.budgets(run(wrong)) == []


def near(label, needed, allowed=2.0, dtype="float32"):
    """A wrong row that is off by `needed` ULP; right by the budget where that is less than `allowed`."""
    found = case(label, int(needed is None or needed > allowed), needed)
    assert found.parity
    found.parity.needed, found.parity.allowed, found.dtype = (found.parity.wrong and needed) or None, allowed, dtype
    return found


@pytest.mark.parametrize(
    ("numpy", "ours", "ulp"), [(4.1, 3.7, "8"), (1.2, 3.7, "8"), (0.5, 6, None), (None, 3.7, None), (4.1, 1.9, "8")]
)
def test_a_budget_is_proposed_where_rounding_alone_exceeds_the_present_one(numpy, ours, ulp):
    found = run(near("numpy", numpy), near("host:a", ours), near("host:a", 1.0))
    peers = f"; for NumPy and libraries alone, or where the spec has peers= already: peers=Budget({ulp}, why=...)"
    says = [
        f"gelu float32: numpy {numpy} ULP, yours {ours}: Budget({ulp}) takes both, if they differ by rounding alone"
        f"{'' if ours > 2 else peers}."
    ]
    assert not ulp or hints.budgets(found) == []
    assert hints.proposals(found) == (says if ulp else [])
    assert not ulp or says[0] in report.render(found, "table").splitlines()


def test_the_allowed_error_stands_beside_the_error():
    found = run(near("host:a", 60.0, 64), near("host:a", 3.7))
    assert re.search(r"host:a +WRONG +3\.7 +2 +100 %", report.render(found, "table"))
    assert "allowed" not in report.render(run(case("host:a")), "table")
    wider, tight = (run(near("host:a", 3.7, 40), *more) for more in ([near("host:a", 1.0, 4)], [near("numpy", 4, 4)]))
    assert (said := "\nallowed ULP: the budget, its `atol`, and what") in report.render(wider, "table")
    assert said not in report.render(tight, "table")
    beyond = report.render(run(near("host:a", 60.0, 8.2e11)), "table")
    assert re.search(r"host:a +right +60 +by atol +100 %", beyond) and "\nby atol: the element is near 0" in beyond
    (failed := case("host:a", status=record.ERROR)).parity = None
    said = report.render(run(failed), "table")
    assert re.search(r"host:a +error +1$", said, re.MULTILINE) and "rounded" not in said  # a column without a value
    hidden = report.render(run(near("host:a", 60.0, 8.2e11), near("host:a", 61.0, 64)), "table")
    assert "by atol" not in hidden  # the row shows the larger error, and what is allowed there


def test_a_large_relative_error_of_a_right_row_is_told_with_the_size_of_the_results():
    far, small = near("host:a", 1.0), replace(near("host:a", 2.0), size="9, ends")
    for one, error in ((far, 2e-7), (small, 1.0)):
        one.parity = replace(one.parity, rel_l2=error, norm=99**0.5 * 4e-13, ok=True, wrong=0)
    said = (
        "rel. error 1.0e+00 of gelu float32 host:a: at 9, ends, where the results are about 4e-13 (root mean square); "
    )
    assert f"{said}the budget allows it." in report.render(run(far, small), "table").splitlines()
    assert said not in report.render(run(far), "table")
    small.parity = replace(small.parity, max_ulp=0.5)  # of an output of 16 bits
    assert said not in report.render(run(far, small), "table")


@pytest.mark.parametrize(("right", "wrong", "step"), table("hints", "multiples", literal_eval, literal_eval, int))
def test_an_entry_that_is_right_at_multiples_alone_is_told_how_to_say_so(right, wrong, step):
    cases = [replace(case("host:a", wrong=n in wrong), shape=(7, n), size=f"7x{n}") for n in (*right, *wrong)]
    special = replace(case("host:a", wrong=1), shape=(7, 64), size="7x64, zeros")
    said = hints.multiples(run(*cases, special))
    assert len(said) == bool(step)
    assert not said or (
        f'dims={{"NAME": "multiple of {step}"}}' in said[0] and "length 2 of the first input" in said[0]
    )
