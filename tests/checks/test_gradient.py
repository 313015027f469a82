"""The `backward` of a spec against differences of its reference."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from cpu_rows import cpu_rows
from specs import pointwise, spec

from cudalab import Budget, Out, Scalar
from cudalab.base.errors import Unavailable
from cudalab.checks import gradient
from cudalab.engine.groups import Group
from cudalab.spec.dtype import dtype

F32 = dtype("float32")
ROWS = {"x": "rows cols", "w": "cols", "y": "rows cols"}


def scaled(tmp_path, backward, reference=lambda x, w, scale: scale * x * w, **more):
    """y = scale * x * w[column]."""
    fields = {"sizes": {"small": (300, 40)}, "edges": ((1, 1), (3, 31)), "shapes": ROWS}
    return spec(tmp_path, reference, **fields | {"scalars": {"scale": Scalar(2.0)}, "backward": backward} | more)


def found(kernel, kind="float32"):
    """`backward` gets NumPy arrays here."""
    assert gradient.due(kernel, dtype(kind))
    return gradient.check(kernel, dtype(kind), 1, np.asarray, np.asarray)


def test_a_right_gradient_of_each_input_passes(tmp_path):
    assert found(scaled(tmp_path, lambda dy, x, w, scale: (scale * dy * w, scale * (dy * x).sum(axis=0)))) == ("", [])


@pytest.mark.parametrize(
    ("backward", "said"),
    [
        (lambda dy, x, w, scale: (dy * w, scale * (dy * x).sum(0)), "gradient of x is wrong: 92 of 93 elements differ"),
        (lambda dy, x, w, scale: (scale * dy * w, scale * (dy * x)[:-1].sum(0)), "gradient of w is wrong: 30 of 31"),
        (lambda dy, x, w, scale: (scale * dy * w, scale * dy * x), r"of w has the shape (3, 31), expected (31,)"),
        (lambda dy, w, scale: scale * dy * w, "returns 1 gradients, expected one for each of x, w"),
        (lambda dy, x, w: (dy.no_such(), None), "backward fails: AttributeError"),
        (lambda dy, x, w: (dy * np.nan, None), "gradient of x is wrong"),
    ],
)
def test_a_wrong_gradient_is_said(tmp_path, backward, said):
    assert said in found(scaled(tmp_path, backward))[0]


def test_the_message_quotes_elements(tmp_path):
    def backward(dy, x, w, scale):
        dx = scale * dy * w
        dx[1, 30] += 1
        return dx, scale * (dy * x).sum(axis=0)

    said = "1 of 93 elements differ from differences of the reference by more than 0.1 % of the largest: [1, 30] got"
    assert said in found(scaled(tmp_path, backward))[0]


def test_what_has_no_gradient_is_noted_and_what_cannot_run_here_too(tmp_path):
    none = found(scaled(tmp_path, lambda dy, w, scale: (scale * dy * w, None)))
    assert none == ("", ["backward returns None for w, on which the result depends"])

    def elsewhere(dy):
        raise Unavailable("needs a GPU")

    assert found(scaled(tmp_path, elsewhere)) == ("", ["backward was not checked: needs a GPU"])
    large = scaled(tmp_path, lambda dy: (dy, None), edges=())
    said = "backward was not checked: no size has at most 256 elements; give a small one in edges"
    assert found(large) == ("", [said])


def test_a_kink_is_no_fault_and_integers_have_no_gradient(tmp_path):
    def inputs(shape, kind, rng):
        x = rng.standard_normal(shape).astype(kind)
        x[0] = 0
        return {"x": x, "at": rng.integers(0, 2, shape)}

    k = scaled(
        tmp_path, lambda dy, x, at: (dy * (x > 0) * at, None), reference=lambda x, at: np.maximum(x, 0) * at,
        inputs=inputs, scalars={}, shapes={}, pointwise=True, sizes={"small": (40,)}, edges=((7,),),
    )  # fmt: skip
    assert found(k) == ("", [])
    assert "gradient of x is wrong" in found(replace(k, backward=lambda dy, x, at: (dy * at, None)))[0]


def test_several_outputs_and_a_narrow_dtype(tmp_path):
    outputs = {
        "total": Out(lambda x: x.sum(axis=1)), "largest": Out(lambda x: x.argmax(axis=1), "int32", budgets=Budget(0)),
        "square": Out(lambda x: (x * x).sum(axis=1)),
    }  # fmt: skip
    fields = {
        "reference": None, "outputs": outputs, "scalars": {}, "dtypes": ("bfloat16",), "budgets": Budget(4, 1e-2),
        "shapes": {"x": "rows cols", **dict.fromkeys(outputs, "rows")},
    }  # fmt: skip

    def backward(times, dtotal, dsquare, x):
        one = dtotal[:, None] + times * dsquare[:, None] * x
        return (one + 0 * x).astype(x.dtype)

    assert found(scaled(tmp_path, partial(backward, 2), **fields), "bfloat16") == ("", [])
    assert "gradient of x is wrong" in found(scaled(tmp_path, partial(backward, 1), **fields), "bfloat16")[0]


@pytest.mark.sweep
@pytest.mark.parametrize("factor", [1, 2])
def test_an_entry_is_wrong_where_the_gradient_of_its_spec_is(tmp_path, factor):
    pytest.importorskip("torch")
    k = pointwise(
        tmp_path, "if (i < n) y[i] = x[i] * x[i];", lambda x: x * x, sizes={"small": (5, 40)}, edges=((1, 3),),
        budgets=Budget(1), backward=lambda dy, x: factor * dy * x,
    )  # fmt: skip
    (row,) = cpu_rows(Group(k, "small", (5, 40), F32), "host")
    assert (row.status, "gradient of x" in row.reason) == (("WRONG", True) if factor == 1 else ("ok", False))


def test_gradients_of_outputs_have_their_names_and_a_reference_of_an_earlier_output_is_left_out(tmp_path):
    shapes = {"x": "rows cols", "w": "cols", "a": "rows cols", "b": "rows cols"}
    first = {"a": Out(lambda x, w, scale: x * w), "b": Out(lambda x, w, scale: x + w)}

    def backward(da, db, x, w):
        return da * w + db, (da * x + db).sum(axis=0)

    assert found(scaled(tmp_path, backward, reference=None, outputs=first, shapes=shapes)) == ("", [])
    late = {"a": first["a"], "b": Out(lambda a: 2 * a)}
    said = "backward was not checked: the reference of b takes an earlier output"
    assert found(scaled(tmp_path, backward, reference=None, outputs=late, shapes=shapes)) == ("", [said])


def test_a_gradient_of_which_no_slope_is_known_has_a_note(tmp_path):
    steep = scaled(tmp_path, lambda dy, x, w: (dy * w, None), reference=lambda x, w: np.sign(x * 0) / 0 * x, scalars={})
    with np.errstate(all="ignore"):
        fault, notes = found(steep)
    assert not fault
    assert notes == ["the gradient of x was not checked: the reference has no slope where the check tries it"]
