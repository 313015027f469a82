"""Budgets whose absolute error is a function: it follows the terms that each element adds up."""

from pathlib import Path

import numpy as np
import pytest
import specs

from cudalab import Budget, Kernel
from cudalab.base.errors import SpecError
from cudalab.checks import allowance, vacuous
from cudalab.checks.expected import Expected, results
from cudalab.checks.parity import compare_all
from cudalab.spec.dtype import DTYPES

F32 = DTYPES["float32"]


def terms(x):
    return 2**-22 * np.abs(x).sum(axis=1)


def spec(atol) -> Kernel:
    shapes = {"x": "rows cols", "y": "rows"}
    return specs.spec(Path(), lambda x: x.sum(axis=1), shapes=shapes, budgets=Budget(0, atol))


def judged(kernel: Kernel, x: np.ndarray, off: float):
    want = Expected(kernel, {"x": x})
    got = (x.sum(axis=1, dtype=np.float64) + off).astype(np.float32)
    budgets = {"y": kernel.budget(F32)}
    return compare_all(kernel, F32, budgets, [got], want, {"x": x})


ROWS = np.array([[1e6, -1e6, 0, 0], [1, -1, 0, 0], [0, 0, 0, 0]], np.float32)


def test_each_element_has_the_error_of_its_terms():
    assert not Budget(0, terms).exact and Budget(0, 0).exact
    assert judged(spec(terms), ROWS, 2e-7).wrong == 1  # the row of zeros allows none
    found = judged(spec(terms), ROWS, 0.01)
    assert found.wrong == 2 and found.message.startswith("2 of 3 values differ by more than 0 ULP + 4.77e-07: [1]")
    assert judged(spec(lambda x: 0.1), ROWS, 0.01).ok  # one number for all
    assert judged(spec(lambda x, share=2**-22: share * np.abs(x).sum(axis=1)), ROWS, 0).ok  # share is its own


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_inputs_that_are_no_numbers_allow_no_error(value):
    x = ROWS.copy()
    x[0, 0] = value
    assert np.array_equal(Expected(spec(terms), {"x": x}).atol("y", Budget(0, terms)), [0, 2**-21, 0])


def test_unusual_inputs_widen_it():
    want = Expected(spec(terms), {"x": ROWS})
    widened = allowance.widened(spec(terms), F32, {"x": ROWS}, want, {"y": Budget(1, terms)}, 0)["y"]
    assert (want.atol("y", widened) >= want.atol("y", Budget(1, terms))).all() and widened.least > 0


def test_zeros_that_it_allows_are_said():
    wide = spec(lambda x: np.abs(x).sum(axis=1))
    want = Expected(wide, {"x": ROWS + 1})
    assert vacuous.zeros_pass(wide, F32, want, results(wide, F32, want))
    assert not vacuous.zeros_pass(spec(terms), F32, want, results(wide, F32, want))


@pytest.mark.parametrize(
    ("atol", "said"),
    [
        (lambda x: np.ones(7), "is an array of shape (7,); let it return real numbers of the output's shape, (3,)"),
        (lambda x: "much", "is 'much'; let it return real numbers"),
        (lambda x: None, "is None; let it return real numbers"),
        (lambda x: x.sum(axis=1) * 1j, "is an array of shape (3,); let it return real numbers"),
        (lambda x: x.sum(axis=1) - 1, "is below 0; let it add up magnitudes"),
    ],
)
def test_what_it_returns_is_checked(atol, said):
    with pytest.raises(SpecError, match="the budget's atol of y") as error:
        judged(spec(atol), ROWS, 0)
    assert said in str(error.value)
