"""NaN among the inputs of kernels that are not functions of single elements: what it decides."""

from __future__ import annotations

import numpy as np
import pytest
from specs import spec

from cudalab import Budget, Out
from cudalab.checks import characters, nans
from cudalab.checks.expected import Expected
from cudalab.checks.parity import compare_all
from cudalab.spec.dtype import dtype

F32 = dtype("float32")
ROWS = {"x": "rows cols", "y": "rows"}


def kernel(tmp_path, reference, **more):
    return spec(tmp_path, reference, **{"shapes": ROWS, **more})


def given(kernel, shape=(8, 40)):
    return characters.arrays(kernel, shape, F32, "nan", 1)


def right(kernel, *got, which="nan", x=None):
    """Whether these results are right, and what is doubtful about them."""
    x = x or characters.arrays(kernel, (8, 40), F32, which, 1)
    want = Expected(kernel, x)
    budgets = {name: kernel.budget(F32, output=name) for name in kernel.outs}
    results = [np.asarray(array, kernel.kind_of(name, F32).numpy) for array, name in zip(got, kernel.outs, strict=True)]
    results, doubts = characters.settled(kernel, F32, which, budgets, results, want, x)
    return compare_all(kernel, F32, budgets, results, want, x).ok, doubts


def test_every_other_row_has_one_nan_in_the_inputs_that_are_free(tmp_path):
    x = given(kernel(tmp_path, lambda x: x.max(axis=1)))["x"]
    assert np.isnan(x).sum(axis=1).tolist() == [1, 0] * 4
    for shape, count in (((7,), 1), ((1, 7), 1), ((3, 3, 7), 5), ((0,), 0), ((), 1)):
        x = nans.scattered(np.ones(shape), 1)
        assert x.shape == shape and np.isnan(x).sum() == count


def test_a_maximum_that_loses_a_nan_is_wrong_and_one_that_spreads_it_is_doubtful(tmp_path):
    k = kernel(tmp_path, lambda x: x.max(axis=1))
    x = given(k)["x"]
    assert right(k, x.max(axis=1)) == (True, [])
    assert not right(k, np.fmax.reduce(x, axis=1))[0]
    spread = x.max(axis=1)
    spread[1] = np.nan
    said = "y is NaN where the reference gives a number, which does not depend on the NaN among the inputs"
    assert right(k, spread) == (True, [said])
    spread[1] = 5
    assert not right(k, spread)[0]


def test_a_reference_that_ignores_nan_asks_the_kernel_for_this_beside_another_output(tmp_path):
    outputs = {"y": Out(lambda x: np.fmax.reduce(x, axis=1)), "sum": Out(lambda x: x.sum(axis=1))}
    k = kernel(tmp_path, None, outputs=outputs, shapes={**ROWS, "sum": "rows"})
    x = given(k)["x"]
    assert right(k, np.fmax.reduce(x, axis=1), x.sum(axis=1)) == (True, [])
    assert not right(k, x.max(axis=1), x.sum(axis=1))[0]


def test_zero_times_nan_decides_nothing(tmp_path):
    """A causal product: rows before the NaN have 0 * NaN in NumPy, and a kernel that skips the zeros has none."""
    k = kernel(tmp_path, lambda x: np.tri(8) @ x, shapes={"x": "rows cols", "y": "rows cols"}, sizes={"small": (8, 8)})
    x = given(k, (8, 8))["x"]
    skipping = np.array([[x[: i + 1, j].sum() for j in range(8)] for i in range(8)], np.float32)
    assert right(k, skipping, x={"x": x}) == (True, [])
    assert not right(k, np.where(np.isnan(skipping), 0, skipping), x={"x": x})[0]


WHOLE = {"outputs": {"y": Out(dtype="int32", budgets=Budget(0))}}


@pytest.mark.parametrize(
    ("reference", "fields"),
    [
        (lambda x: np.fmax.reduce(x, axis=1), {}),  # no result has to be NaN
        (lambda x: np.sort(x, axis=1), {"shapes": {"x": "rows cols", "y": "rows cols"}}),  # NaN is one of its results
        (lambda x: (x * 4).astype(np.int64).sum(axis=1), WHOLE),  # a conversion on the way: NaN becomes an integer
        (lambda x: np.rint(x).max(axis=1), WHOLE),
        (lambda x: 1 / 0 if np.isnan(x).any() else x.max(axis=1), WHOLE),
    ],
)
def test_the_usual_inputs_are_tried_where_nan_says_nothing(tmp_path, reference, fields):
    assert not np.isnan(given(kernel(tmp_path, reference, **fields))["x"]).any()


def test_integers_beside_a_result_that_is_nan_are_not_judged(tmp_path):
    at = Out(lambda x: x.argmax(axis=1), dtype="int32", budgets=Budget(0))
    outputs = {"y": Out(lambda x: x.max(axis=1)), "at": at}
    k = kernel(tmp_path, None, outputs=outputs, shapes={**ROWS, "at": "rows"})
    assert right(k, given(k)["x"].max(axis=1), np.zeros(8))[0]


def test_a_spec_says_that_nan_is_ignored(tmp_path):
    k = kernel(tmp_path, lambda x: x.max(axis=1), nans="ignored")
    assert "nan" not in characters.chosen(k) and "zeros" in characters.chosen(k)


def test_at_zeros_the_sign_of_a_sum_of_zeros_is_not_judged(tmp_path):
    k = kernel(tmp_path, lambda x: x.sum(axis=1), budgets=Budget(0))
    assert right(k, np.zeros(8), which="zeros")[0]
    assert not right(k, np.full(8, -np.inf), which="zeros")[0]
