"""Inputs of one character: which inputs they replace, and what they find."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_groups import planned
from specs import spec

from cudalab import Budget, Out, Scalar
from cudalab.checks import allowance, characters, subnormals
from cudalab.checks.expected import Expected
from cudalab.checks.parity import compare
from cudalab.spec.dtype import dtype
from cudalab.spec.inputs import CHARACTERS

F32 = dtype("float32")


def kernel(tmp_path, reference=lambda x: x.sum(axis=1, keepdims=True) + 0 * x, **more):
    return spec(tmp_path, reference, **more)


def made(kernel, which, kind=F32):
    return characters.arrays(kernel, (8, 40), kind, which, 1)


def test_each_character_is_what_its_name_says(tmp_path):
    x = {which: made(kernel(tmp_path), which)["x"] for which in CHARACTERS}
    assert all(a.dtype == np.float32 and a.shape == (8, 40) for a in x.values())
    assert not x["zeros"].any() and x["negative"].max() < -100 and x["positive"].min() > 100
    assert np.abs(x["large"]).max() > 1e8 and 0 < np.abs(x["tiny"]).max() < 1e-8
    assert set(np.unique(x["ties"])) == {-1, 0, 1}
    assert ((x["ties"] == 1).sum(axis=1)[::2] == 4).all() and ((x["ties"] == 1).sum(axis=1)[1::2] > 4).any()
    assert ((x["peak"] > 4).sum(axis=0) == 1).all() and x["peak"][0, -1] > 4
    assert np.sort(np.abs(x["peak"]))[:, 30].max() < 0.2
    assert np.unique(x["low"]).size > 99 and x["low"].max() <= -(2**17)
    assert (x["ends"].argmax(axis=1) % 39 == 0).all() and len(set(x["ends"].argmax(axis=1))) == 2
    assert not np.isinf(x["masked"]).any()  # the sum would be
    for which, value in (("neginf", -np.inf), ("posinf", np.inf)):
        assert (x[which][::2] == value).all() and np.isfinite(x[which][1::2]).all()
    assert (np.diff(x["rising"][::2], axis=1) >= 0).all() and (np.diff(x["falling"][::2], axis=1) <= 0).all()


@pytest.mark.parametrize(("n", "apart"), [(2, 1), (40, 32), (128, 64), (129, 128), (300, 256)])
def test_one_thread_of_a_block_meets_the_largest_values_of_a_row_one_after_another(n, apart):
    """What is the second largest value after the largest one is known would be lost between two threads' values."""
    x = np.random.default_rng(0).standard_normal((4, n))
    for which, largest in (("rising", [apart, 0]), ("falling", [0, apart])):
        found = characters.MAKERS[which](x, 1)
        assert np.array_equal(np.sort(found, axis=1), np.sort(4 * x, axis=1))
        assert [list(row.argsort()[::-1][:2]) for row in found[1::2]] == [largest] * 2


def test_zeros_have_both_signs_in_one_row():
    (one,), rows = characters.MAKERS["zeros"](np.ones((1, 9)), 1), characters.MAKERS["zeros"](np.ones((4, 9)), 1)
    signs = np.signbit([one, *rows]).sum(axis=1)
    assert list(signs) == [5, 9, 0, 5, 0] and not np.signbit(one[0]) and not np.signbit(rows[2, 0])
    assert np.signbit(characters.MAKERS["zeros"](np.ones(()), 1))


def test_masked_inputs_are_tried_where_the_result_is_finite_or_a_copy(tmp_path):
    def top(x):
        return -np.sort(-x, axis=1)[:, :40]

    exact = made(kernel(tmp_path, top, budgets={"float32": Budget(0)}), "masked")["x"]
    assert np.isinf(exact).any() and np.isfinite(exact).any(axis=1).all()
    assert np.isfinite(made(kernel(tmp_path, top), "masked")["x"]).all()  # not exact: -inf may come from arithmetic
    softmax = made(kernel(tmp_path, lambda x: np.exp(x - x.max(axis=1, keepdims=True))), "masked")["x"]
    assert (np.isfinite(softmax).sum(axis=1) == 1).all()  # one finite value in each row
    assert np.isfinite(made(kernel(tmp_path), "masked")["x"]).all()  # a sum is -inf


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
    assert np.array_equal(made(k, "large", dtype("int32"))["x"], k.make((8, 40), dtype("int32"), 1)["x"])


def test_negative_values_meet_positive_ones(tmp_path):
    """A maximum of products that begins at 0, as in an attention, is right where some product is positive."""
    x = made(kernel(tmp_path, lambda q, k: (q * k).max(axis=1, keepdims=True) + 0 * q), "negative")
    assert x["q"].max() < -100 and (x["q"] * x["k"]).max() < 0


@pytest.mark.parametrize("name", ["int8", "uint8", "int64"])
def test_integers_of_one_sign_stay_within_their_dtype(tmp_path, name):
    """A maximum that starts at 0, or a bitwise AND that starts at 0, is right for values of the whole range."""
    k = kernel(tmp_path, lambda x: x, dtypes=(name,), budgets={name: Budget(0)})
    limits = np.iinfo(name)
    negative, positive = (made(k, which, dtype(name))["x"] for which in ("negative", "positive"))
    assert negative.max() == max(limits.min, -128) and positive.min() == min(limits.max, 128)


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
    found = allowance.widened(k, F32, given, Expected(k, given), {"y": k.budget(F32)}, 1)
    assert 0.1 < found["y"].atol < 10
    whole = allowance.widened(k, dtype("int32"), given, Expected(k, given), {"y": k.budget(F32)}, 1)
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
    found = allowance.widened(k, F32, given, Expected(k, given), budgets, 1)
    assert found["y"].atol > 0.1 and found["z"].atol > found["y"].atol and found["n"] == budgets["n"]
    assert not made(k, "zeros")["x"].any() and made(k, "zeros")["w"].any()  # of another shape
    whole = Out(lambda x, w: (x.sum(axis=1) / x.max(axis=1)).astype(np.int64), "int64")
    assert made(replace(k, outputs={**outputs, "n": whole}), "zeros")["x"].any()


@pytest.mark.parametrize("name", ["complex64", "uint8", "bool", "float8_e4m3fn", "int64"])
def test_characters_of_other_dtypes(tmp_path, name):
    kind = dtype(name)
    k = kernel(tmp_path, lambda x: x, dtypes=(name,), budgets={name: Budget(0)})
    x = {which: made(k, which, kind)["x"] for which in CHARACTERS}
    assert all(a.dtype == kind.numpy for a in x.values()) and not x["zeros"].any()
    if kind.complex:
        assert x["negative"].real.max() < -100 and x["negative"].imag.max() < -100
    if name == "uint8":
        assert (np.diff(x["rising"][::2].astype(int), axis=1) >= 0).all()


def test_a_property_is_one_of_the_usual_inputs_unless_the_spec_says_otherwise(tmp_path):
    k = kernel(tmp_path, None, outputs={"y": Out(check=lambda x, y: True)})
    assert not characters.apply(k, (8, 40), F32)
    assert characters.apply(replace(k, characters=("zeros",)), (8, 40), F32)


def test_a_spec_chooses_its_characters(tmp_path):
    def chosen(**more):
        return [group.values for group in groups(kernel(tmp_path, **more))]

    assert chosen() == [which for which in CHARACTERS if which != "scalars"]
    assert chosen(scalars={"limit": Scalar(0.5)}, reference=lambda x, limit: x)[-1] == "scalars"
    assert chosen(characters=False) == []
    assert chosen(characters=("ties",)) == ["ties"]


def test_a_copy_that_loses_the_sign_of_a_zero_is_wrong_and_a_maximum_is_not_blamed(tmp_path):
    """Budget(0) asks for the same bits at every character; a budget of more takes either zero."""
    copies = kernel(tmp_path, lambda x: x, budgets={"float32": Budget(0)})
    x = made(copies, "ties")
    want = Expected(copies, x)
    budgets = {"y": copies.budget(F32, output="y")}
    assert allowance.widened(copies, F32, x, want, budgets, seed=0) == budgets
    assert np.signbit(x["x"][x["x"] == 0]).all() and (x["x"] == 0).any()
    found = compare(x["x"] + np.float32(0), want.compute("y", {}), F32, budgets["y"])
    assert not found.ok and "only the sign of zeros differs, which Budget(0) asks for" in found.message
    assert compare(x["x"] + np.float32(0), want.compute("y", {}), F32, Budget(0.5)).ok
    assert compare(x["x"], want.compute("y", {}), F32, budgets["y"]).ok


# ---- rows of an infinity throughout ----------------------------------------------------------------------------------


def test_rows_of_an_infinity_are_tried_where_the_reference_says_something(tmp_path):
    def tried(reference, **more):
        return bool(np.isinf(made(kernel(tmp_path, reference, **more), "neginf")["x"]).any())

    assert tried(lambda x: x.max(axis=1), shapes={"x": "rows cols", "y": "rows"})
    with np.errstate(all="ignore"):
        assert tried(lambda x: x - x.max(axis=1, keepdims=True))  # NaN in these rows, numbers in the others
        assert not tried(lambda x: x + 0 * x.sum())  # NaN everywhere
        whole = {"outputs": {"y": Out(dtype="int32", budgets=Budget(0))}, "shapes": {"x": "rows cols", "y": "rows"}}
        assert tried(lambda x: x.argmax(axis=1), **whole)
        assert not tried(lambda x: np.rint(x.sum(axis=1) / x.max(axis=1)), **whole)  # NaN is no integer
    assert not tried(lambda x: 1 / 0 if np.isinf(x).any() else x)


@pytest.mark.parametrize("shape", [(), (1,), (3, 1), (7,), (1, 7), (3, 2, 7)])
def test_inputs_keep_their_shape_and_rows_are_infinite_throughout(shape):
    made = {which: characters.MAKERS[which](np.ones(shape), np.inf) for which in ("rising", "falling", "posinf")}
    assert {x.shape for x in made.values()} == {shape}
    assert np.isinf(made["posinf"]).reshape(-1, shape[-1] if shape else 1)[::2].all()


@pytest.mark.parametrize("shape", [(0,), (0, 5), (3, 0)])
def test_an_array_without_elements_stays_as_it_is(shape):
    assert {make(np.ones(shape), 1.0).shape for make in characters.MAKERS.values()} == {shape}


@pytest.mark.parametrize(("reference", "budget", "tried"), [
    (lambda x: x.sum(axis=1), Budget(64), True),
    (lambda x: x.max(axis=1), Budget(0), True),
    (lambda x: x[:, 0] / np.sqrt((x * x).mean(axis=1) + 1e-5), Budget(4), True),
    (lambda x: np.sqrt((x * x).sum(axis=1)), Budget(4), False),  # float32 has no squares of them
    (lambda x: (x / np.sqrt((x * x).sum(axis=1, keepdims=True)))[:, 0], Budget(4), False),
    (lambda x: np.exp(x).sum(axis=1), Budget(4), False),
    (lambda x: x.sum(axis=1), Budget(4, 1e-6), False),
])  # fmt: skip
def test_subnormal_inputs_show_a_kernel_that_takes_them_for_0_and_are_not_tried_elsewhere(
    tmp_path, reference, budget, tried
):
    k = kernel(tmp_path, reference, shapes={"x": "rows cols", "y": "rows"}, budgets={"float32": budget})
    given = made(k, "subnormal")
    assert bool((np.abs(given["x"]) < 2.0**-126).all()) == tried
    if tried:
        want, budgets = Expected(k, given), {"y": budget}
        own, peers = (subnormals.widened(k, F32, given, budgets, whose)["y"] for whose in ("budgets", "peers"))
        due = want.compute("y", {})
        assert compare(due.astype(np.float32), due, F32, own).ok
        assert not compare(np.zeros(8, np.float32), due, F32, own).ok
        assert compare(np.zeros(8, np.float32), due, F32, peers).ok != budget.exact
        (y,) = subnormals.settled(k, F32, budgets, [np.array([0] * 7 + [1], np.float32)], want, given)
        assert compare(y[:7], due[:7], F32, budget).ok and y[7] == 1


@pytest.mark.parametrize(("reference", "result", "kind"), [
    (lambda x: x * 1e-40, -7e-40, "float64"),  # which -ftz=true does not change
    (lambda x: x > 0, np.uint8(2), "bool"),
    (lambda x: 3 * x, np.float32(3) - np.float32(2**-22), "float32"),  # right, though not rounded correctly
])  # fmt: skip
def test_results_that_subnormal_numbers_do_not_explain_stay_as_they_are(tmp_path, reference, result, kind):
    k = kernel(tmp_path, reference, outputs={"y": Out(dtype=kind)})
    given, got = {"x": np.ones((8, 40), np.float32)}, np.full((8, 40), result).view(kind)
    (y,) = subnormals.settled(k, F32, {"y": Budget(2)}, [got], Expected(k, given), given)
    assert y.tobytes() == got.tobytes()


def settled(tmp_path, got, due, budget, **more):
    k = kernel(tmp_path, lambda x: np.array(due), shapes={"x": "rows cols", "y": str(len(due))}, budgets=budget, **more)
    given = {"x": np.zeros((8, 40), np.float32)}
    results = [np.array(got, np.float32)]
    return characters.settled(k, F32, "neginf", {"y": k.budget(F32)}, results, Expected(k, given), given)


def test_where_the_reference_gives_nan_any_result_is_right_and_elsewhere_none_but_its_own(tmp_path):
    (y,), doubts = settled(tmp_path, [0, 1, 2, -1e38], [np.nan, np.nan, 5, -np.inf], Budget(4))
    np.testing.assert_array_equal(y, np.array([np.nan, np.nan, 2, -1e38], np.float32))
    assert not doubts


def test_nan_for_an_infinity_is_doubtful_and_wrong_where_values_are_exact(tmp_path):
    (y,), doubts = settled(tmp_path, [np.nan, 1], [-np.inf, 1], Budget(4))
    np.testing.assert_array_equal(y, np.array([-np.inf, 1], np.float32))
    assert doubts == ["y is NaN where the reference gives an infinity, for rows of an infinity throughout"]
    (y,), doubts = settled(tmp_path, [np.nan, 1], [-np.inf, 1], Budget(0))
    assert np.isnan(y[0]) and not doubts


# ---- at which sizes --------------------------------------------------------------------------------------------------


def product(tmp_path, **more):
    """The max-plus product of matrices."""
    fields = {
        "shapes": {"a": "m k", "b": "k n", "y": "m n"}, "sizes": {"small": (32, 32, 32)}, "edges": ((17, 64, 33),),
        "entries": {"k": lambda a, b, y: None},
    }  # fmt: skip
    return kernel(tmp_path, lambda a, b: (a[:, :, None] + b[None]).max(1), **fields | more)


def groups(kernel):
    return [group for group in planned(kernel) if group.values in CHARACTERS]


def test_they_are_tried_where_the_arrays_are_small_though_the_product_of_the_dimensions_is_not(tmp_path):
    found = groups(product(tmp_path))
    assert {group.shape for group in found} == {(17, 64, 33)} and "negative" in {group.values for group in found}
    planes = kernel(tmp_path, lambda x: 2 * x, shapes={"x": "n 512 512"}, sizes={"small": (1,)}, edges=((128,),))
    assert {group.shape for group in groups(planes)} == {(1,)}


def test_they_are_tried_at_the_longest_rows_among_the_largest_shapes(tmp_path):
    """Longer than a block, that is, where a shape is. Peaks are at the longest rows of all that a check tries."""
    rows = {"sizes": {"small": (50, 300)}, "edges": ((1, 2), (3, 127), (2, 129), (1, 300), (40, 2))}
    found = groups(kernel(tmp_path, **rows))
    assert {group.shape for group in found if group.values != "peak"} == {(2, 129)}
    assert {group.shape for group in found if group.values == "peak"} == {(50, 300)}
    assert characters.at(kernel(tmp_path, edges=((200,), (7,)), sizes={"s": (1 << 20,)})) == (200,)
    assert characters.at(kernel(tmp_path, edges=((1, 9), (1, 30)), sizes={"s": (1 << 20, 1)})) == (1, 30)
    assert characters.at(kernel(tmp_path, edges=(), sizes={"s": (1 << 21,)})) is None


def test_a_note_says_that_no_size_is_small_enough(tmp_path):
    large = product(tmp_path, sizes={"small": (2048, 2048, 8)}, edges=())
    assert groups(large) == []
    (note,) = characters.not_tried(large)
    assert "no size has at most 1,048,576 elements; give small ones, such as edges=((1,),)" in note
    assert characters.not_tried(product(tmp_path)) == characters.not_tried(replace(large, characters=False)) == []
