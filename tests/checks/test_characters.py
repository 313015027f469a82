"""Inputs of one character: which inputs they replace, and what they find."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cudalab import Budget, Kernel, Out, SpecError
from cudalab.checks import characters
from cudalab.checks.expected import Expected
from cudalab.engine import plan
from cudalab.spec.dtype import dtype
from cudalab.spec.inputs import CHARACTERS

F32 = dtype("float32")


def kernel(tmp_path, reference=lambda x: x.sum(axis=1, keepdims=True) + 0 * x, **more):
    fields = {
        "file": str(tmp_path / "k.py"), "summary": "k", "dtypes": ("float32",), "sizes": {"small": (8, 40)},
        "edges": ((3, 31),), "reference": reference, "entries": {"k": lambda **arrays: None},
        "budgets": {"float32": Budget(4, 1e-6)},
    }  # fmt: skip
    return Kernel(**fields | more)


def made(kernel, which, kind=F32):
    return characters.arrays(kernel, (8, 40), kind, which, 1)


def test_each_character_is_what_its_name_says(tmp_path):
    x = {which: made(kernel(tmp_path), which)["x"] for which in CHARACTERS}
    assert all(a.dtype == np.float32 and a.shape == (8, 40) for a in x.values())
    assert not x["zeros"].any() and x["negative"].max() < -100
    assert np.abs(x["large"]).max() > 1e8 and 0 < np.abs(x["tiny"]).max() < 1e-8
    assert set(np.unique(x["ties"])) == {-1, 0, 1}
    assert (x["ends"].argmax(axis=1) % 39 == 0).all() and len(set(x["ends"].argmax(axis=1))) == 2
    assert (np.diff(x["rising"], axis=1) >= 0).all() and (np.diff(x["falling"], axis=1) <= 0).all()


def test_only_inputs_that_look_free_are_replaced(tmp_path):
    def inputs(shape, dtype, rng):
        return {
            "x": rng.standard_normal(shape).astype(dtype), "p": rng.random(shape).astype(dtype),
            "sorted": np.sort(rng.standard_normal(shape)).astype(dtype),
            "whole": rng.integers(-9, 9, shape).astype(dtype),
            "mask": np.where(rng.random(shape) < 0.5, -np.inf, 0).astype(dtype), "index": rng.integers(0, 9, shape),
            "z": rng.standard_normal(shape).astype(dtype), "w": rng.standard_normal(shape[1:]).astype(dtype),
        }  # fmt: skip

    k = kernel(tmp_path, lambda x, p, sorted, whole, mask, index, z, w: x + z, inputs=inputs)
    drawn, given = k.make((8, 40), F32, 1), made(k, "zeros")
    assert [name for name in drawn if not np.array_equal(drawn[name], given[name])] == ["x", "z"]


def test_integers_are_replaced_only_where_the_lab_draws_them(tmp_path):
    k = kernel(tmp_path, lambda x: x, dtypes=("int32",), budgets={"int32": Budget(0)})
    assert not made(k, "zeros", dtype("int32"))["x"].any()
    assert np.array_equal(made(k, "negative", dtype("int32"))["x"], k.make((8, 40), dtype("int32"), 1)["x"])


@pytest.mark.parametrize(
    "reference", [lambda x: x / np.abs(x).sum(), lambda x: 1 / 0 if not x.any() else x, lambda x: np.log(x + 1e-300)]
)
def test_a_character_at_which_the_reference_is_not_finite_is_not_tried(tmp_path, reference):
    k = kernel(tmp_path, reference)
    with np.errstate(all="ignore"):
        which = "zeros" if reference(np.ones((2, 2))).all() else "negative"
        assert np.array_equal(made(k, which)["x"], k.make((8, 40), F32, 1)["x"])


def test_large_values_are_the_largest_at_which_the_result_stays_finite(tmp_path):
    assert np.abs(made(kernel(tmp_path), "large")["x"]).max() > 1e8
    cubes = kernel(tmp_path, lambda x: x**6)
    assert 1e3 < np.abs(made(cubes, "large")["x"]).max() < 1e6


def test_the_budget_allows_what_rounding_the_inputs_does_and_no_more(tmp_path):
    k = kernel(tmp_path)
    given = {"x": np.full((8, 40), 1e6, np.float32)}
    given["x"][:, 1::2] *= -1  # the sum cancels: its error is that of the terms
    found = characters.widened(k, F32, given, Expected(k, given), {"y": k.budget(F32)}, 1)
    assert 0.1 < found["y"].atol < 10
    whole = characters.widened(k, dtype("int32"), given, Expected(k, given), {"y": k.budget(F32)}, 1)
    assert whole["y"].atol == k.budget(F32).atol


def test_each_of_several_outputs_has_a_budget_of_its_own_and_must_be_finite(tmp_path):
    """The first output cancels, the second is rounded integers, the third is twice the first one."""
    outputs = {
        "y": Out(), "n": Out(lambda x, w: np.argmax(x + w, axis=1), dtype="int64", budgets={"float32": Budget(0)}),
        "z": Out(lambda y: 2 * y),
    }  # fmt: skip
    k = kernel(
        tmp_path, lambda x, w: x.sum(axis=1) + 0 * w[0], outputs=outputs,
        shapes={"x": "rows cols", "w": "cols", "y": "rows", "n": "rows", "z": "rows"},
    )  # fmt: skip
    given = {"x": np.tile(np.array([1e6, -1e6], np.float32), (8, 20)), "w": np.ones(40, np.float32)}
    budgets = {name: k.budget(F32, output=name) for name in outputs}
    found = characters.widened(k, F32, given, Expected(k, given), budgets, 1)
    assert found["y"].atol > 0.1 and found["z"].atol > found["y"].atol and found["n"] == budgets["n"]
    assert not made(k, "zeros")["x"].any() and made(k, "zeros")["w"].any()  # of another shape
    k = replace(
        k, outputs={**outputs, "n": Out(lambda x, w: (x.sum(axis=1) / x.max(axis=1)).astype(np.int64), "int64")}
    )
    assert made(k, "zeros")["x"].any()


@pytest.mark.parametrize("name", ["complex64", "uint8", "bool", "float8_e4m3fn", "int64"])
def test_characters_of_other_dtypes(tmp_path, name):
    kind = dtype(name)
    k = kernel(tmp_path, lambda x: x, dtypes=(name,), budgets={name: Budget(0)})
    x = {which: made(k, which, kind)["x"] for which in CHARACTERS}
    assert all(a.dtype == kind.numpy for a in x.values()) and not x["zeros"].any()
    if kind.complex:
        assert x["negative"].real.max() < -100 and x["negative"].imag.max() < -100
    if name == "uint8":
        assert (np.diff(x["rising"].astype(int), axis=1) >= 0).all()


def test_a_property_is_one_of_the_usual_inputs_unless_the_spec_says_otherwise(tmp_path):
    k = kernel(tmp_path, None, outputs={"y": Out(check=lambda x, y: True)})
    assert not characters.apply(k, (8, 40), F32)
    assert characters.apply(replace(k, characters=("zeros",)), (8, 40), F32)


def test_a_spec_chooses_its_characters(tmp_path, monkeypatch):
    def groups(**more):
        monkeypatch.setattr(plan, "named", lambda names: {"k": kernel(tmp_path, **more)})
        return [group.values for group in plan.checks(("k",), "") if group.values]

    assert groups() == list(CHARACTERS)
    assert groups(characters=False) == []
    assert groups(characters=("ties",)) == ["ties"]
    with pytest.raises(SpecError, match=r"characters is .*give True, False, or a tuple of zeros, negative"):
        groups(characters=("knots",))
