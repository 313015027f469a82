"""References that are computed in parts: as those of whole arrays, and only where rows do not depend on each other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import specs

from cudalab import Budget, Kernel, Out
from cudalab.base import threads
from cudalab.base.errors import SpecError
from cudalab.checks.expected import Expected, results
from cudalab.spec import find
from cudalab.spec.dtype import DTYPES

F32 = DTYPES["float32"]
X = {"x": np.random.default_rng(0).standard_normal((50, 3), np.float32)}


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr(threads, "CHUNK", 30)


def spec(reference=None, **fields) -> Kernel:
    shapes = {"x": "rows cols"} | fields.pop("shapes", {})
    return specs.spec(Path(), reference, **{"shapes": shapes, "independent": "rows"} | fields)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", sorted(k.name for k in find.kernels().values() if k.independent))
def test_the_labs_references_give_the_same_bits_in_parts(name, dtype, monkeypatch):
    kernel = find.kernel(name)
    arrays = kernel.make((63, 11, 1)[: kernel.rank], DTYPES[dtype], 1)

    def all_of(kernel: Kernel) -> dict[str, np.ndarray]:
        expected = Expected(kernel, arrays)
        found = dict(results(kernel, DTYPES[dtype], expected))
        return found | {f"atol of {n}": expected.atol(n, kernel.budget(DTYPES[dtype], output=n)) for n in found}

    monkeypatch.setattr(threads, "CHUNK", 48)  # four rows; gamma and beta are not cut
    of_parts, whole = all_of(kernel), all_of(replace(kernel, independent=""))
    for what, one in whole.items():
        assert np.array_equal(of_parts[what], one, equal_nan=True), what


def test_parts_cover_all_rows_and_have_few_of_them():
    seen = []
    found = Expected(spec(lambda x: seen.append(len(x)) or x * 2), X).compute("y", {})
    assert np.array_equal(found, X["x"].astype(np.float64) * 2)
    assert sorted(seen) == 5 * [10] + [22]  # eleven rows are computed by themselves, each at two places
    assert len(Expected(spec(lambda x: x, independent=""), X).compute("y", {})) == 50


def repeating(n):
    return lambda x: x * (np.arange(len(x)) % n)[:, None]


@pytest.mark.parametrize(
    ("reference", "fields"),
    [
        (lambda x: x - x.mean(axis=0), {}),
        (lambda x: x.cumsum(axis=0), {}),
        (lambda x: x / len(x), {}),
        (lambda x: np.where(np.arange(3) <= np.arange(len(x))[:, None], x, 0), {}),
        *((repeating(n), {}) for n in (2, 3, 5, 7, 10)),
        (lambda x: x, {"budgets": Budget(1, lambda x: 1e-6 * np.abs(x).sum())}),
    ],
)
def test_rows_that_depend_on_each_other_or_on_their_index_are_refused(reference, fields):
    kernel = spec(reference, **fields)
    with pytest.raises(SpecError, match=r"k\.py: independent='rows', but a few rows by themselves have another .*y"):
        Expected(kernel, X).atol("y", kernel.budget(F32))


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        (lambda x: x.sum(axis=0), r"of shape \(3,\), but y has the shape of x, \(50, 3\)"),
        (lambda x: [][len(x)], "list index out of range"),
    ],
)
def test_faults_are_told_as_of_whole_arrays(reference, said):
    with pytest.raises((SpecError, IndexError), match=said):
        Expected(spec(reference), X)


@pytest.mark.parametrize("count", [10, 25])
def test_what_fails_for_a_few_rows_or_for_a_part_is_computed_whole(count):
    found = Expected(spec(lambda x: (x * 2).reshape(-1, count, 3).reshape(x.shape)), X).compute("y", {})
    assert np.array_equal(found, X["x"].astype(np.float64) * 2)


def test_an_output_that_follows_from_an_earlier_one_is_computed_once_for_the_same_bits():
    calls = []
    outputs = {
        "scale": Out(lambda x: np.abs(x).max(axis=1), dtype="float32"),
        "q": Out(lambda x, scale: calls.append(len(x)) or x / scale[:, None]),
    }
    expected = Expected(spec(outputs=outputs, shapes={"scale": "rows", "q": "rows cols"}, independent=""), X)
    scale = np.abs(X["x"]).max(axis=1)
    first = expected.compute("q", {"scale": scale})
    assert expected.compute("q", {"scale": scale.copy()}) is first and calls == [50]
    scale[7] *= -1  # in place, as a later run writes over the output of an earlier one
    other = expected.compute("q", {"scale": scale})
    assert calls == [50, 50] and np.array_equal(np.flatnonzero((other != first).any(axis=1)), [7])
