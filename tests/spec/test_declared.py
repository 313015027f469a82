"""What a spec says of its arrays as a whole: mistakes in shapes are refused when it is loaded, and in calls."""

from __future__ import annotations

import re

import numpy as np
import pytest

from cudalab import Budget, In, Kernel, Launch, Scalar, Work
from cudalab.base.errors import InputError, SpecError
from cudalab.spec.dtype import dtype


def spec(**more):
    fields = {
        "file": "k.py", "summary": "k", "dtypes": ("float32",), "sizes": {"small": (8, 64)}, "edges": ((1, 1),),
        "shapes": {"x": "rows cols"}, "reference": lambda x: x, "budgets": Budget(0),
        "entries": {"k": lambda **arrays: Launch((1,), (1,), ())},
    }  # fmt: skip
    return Kernel(**fields | more)


def dims(name, rules, **more):
    return {"dims": {name: rules}, **more}


def length(scalar, **more):
    """A spec whose output has as many columns as the scalar k says."""
    return {"shapes": {"x": "rows cols", "y": "rows k"}, "reference": lambda x, k: x, "scalars": {"k": scalar}, **more}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"shapes": {"x": "rows cols//2"}}, "shapes: x is 'rows cols//2', and the length of 'cols//2' does not tell c"),
        ({"shapes": {"x": "rows cols", "y": "row"}}, "shapes: y: 'row' names row, which no input defines"),
        ({"workspace": {"w": Work()}, "shapes": {"x": "a b", "w": "n"}}, "shapes: w: 'n' names n, which no input"),
        ({"inputs": {"x": In("int32", 0, "words")}}, "inputs: x: 'words' names words, which no input defines"),
        ({"shapes": {"x": "n-1 m"}, "edges": ((0, 3),)}, "an edge, (0, 3): shapes: 'n-1' is -1 where n = 0"),
        ({"shapes": {"x": "n m", "y": "n-m"}}, "size 'small', (8, 64): shapes: 'n-m' is -56 where n = 8 and m = 64"),
        (dims("cols", "multple of 8"), "dims is {'cols': 'multple of 8'}; give rules by dimension, such as {"),
        (dims("col", "at most 8"), "dims: no dimension in the shapes of the inputs named 'col'; did you mean 'cols'?"),
        (dims("cols", "at most row"), "dims: cols is 'at most row': no other dimension named 'row'; did you mean 'r"),
        (dims("cols", "at most cols"), "dims: cols is 'at most cols': no other dimension named 'cols'"),
        (dims("cols", "at most 32"), "size 'small', (8, 64): cols is 64, but dims says 'at most 32'; give 32"),
        (dims("cols", "multiple of 8"), "an edge, (1, 1): cols is 1, but dims says 'multiple of 8'; give 8"),
        (dims("cols", "at most 8", shapes={}), "dims needs shapes=, which names the dimensions, such as "),
        (length(Scalar(4)), "the scalar k is a length; give it a dtype of whole numbers, such as "),
        (length(Scalar(-4, "int32")), "size 'small', (8, 64): shapes: 'k' is -4 where k = -4"),
        (length(Scalar(4, "int32"), dims={"k": "at most cols"}),
         "an edge, (1, 1): k is 4, but dims says 'at most cols', where cols is 1; give 1"),
        (length(Scalar(lambda x: int(x[0]), "int32")),
         "the scalar k is a length, and must be a number or a function of the inputs' shapes: an element of x is not"),
        (length(Scalar(lambda x: x.nbytes, "int32")), "a number or a function of the inputs' shapes"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_when_the_spec_is_loaded(more, said):
    with pytest.raises(SpecError, match=re.escape(said)):
        spec(**more)


def test_a_call_whose_output_would_have_a_length_below_zero_is_refused():
    last = spec(shapes={"x": "n", "y": "n-1"}, sizes={"small": (9,)}, edges=((1,),))
    last.accepts_call({"x": (1,)})
    with pytest.raises(InputError, match=r"k is called with x \(0,\): shapes: 'n-1' is -1 where n = 0"):
        last.accepts_call({"x": (0,)})
    with pytest.raises(
        InputError, match=r"k takes no size \(0,\): shapes: 'n-1' is -1 .*; the spec's sizes: small = 9"
    ):
        last.accepts((0,))


def test_a_scalar_is_the_length_of_outputs_workspaces_and_indices():
    one = spec(
        shapes={"x": "n", "index": "n", "y": "segments", "w": "segments+1"}, reference=lambda x, index, segments: x,
        scalars={"segments": Scalar(lambda x: 1 + x.shape[0] // 4, "int32")}, workspace={"w": Work()},
        inputs={"index": In("int32", 0, "segments")}, sizes={"small": (20,)}, edges=((1,),),
    )  # fmt: skip
    inputs = {"x": (20,), "index": (20,)}
    assert (one.shape_of("y", inputs), one.shape_of("w", inputs)) == ((6,), (7,))
    assert (one.shape_of("y", inputs, {"segments": 9}), one.dimension_names) == ((9,), ("n",))
    assert one.make((20,), dtype("float32"))["index"].max() == 5
    assert one.length_scalars == ("segments",)
    one.accepts((20,), {"segments": 9})
    for name, said in (("n", "n is a dimension of the inputs; write it"), ("segment", "did you mean 'segments'")):
        with pytest.raises(InputError, match=f"takes no size with {name}=3: .*{said}"):
            one.accepts((20,), {name: 3})


def test_a_function_of_shapes_may_take_a_scalar():
    one = spec(
        shapes={"x": "rows cols", "y": lambda x, k: (x[0], min(k, x[1]))}, scalars={"k": Scalar(4, "int32")},
        reference=lambda x, k: x[:, :k],
    )  # fmt: skip
    assert (one.length_scalars, one.shape_of("y", {"x": (8, 64)})) == (("k",), (8, 4))
    assert one.shape_of("y", {"x": (8, 64)}, {"k": 99}) == (8, 64)


def test_a_scalar_with_the_name_of_a_dimension_is_no_length():
    one = spec(scalars={"rows": Scalar(3.0)}, reference=lambda x, rows: x)
    assert one.length_scalars == () and one.shape_of("y", {"x": (5, 2)}) == (5, 2)


def test_sizes_and_calls_obey_the_rules():
    one = spec(dims={"cols": "multiple of 8"}, edges=((1, 8),))
    one.accepts_call({"x": (3, 16)})
    with pytest.raises(InputError, match=r"called with x \(3, 12\): cols is 12, but dims says .*; give 8 or 16"):
        one.accepts_call({"x": (3, 12)})
    with pytest.raises(InputError, match=r"k takes no size \(3, 12\): cols is 12"):
        one.accepts((3, 12))
    assert list(one.allowed((8, 64), 1)[:3]) == [0, 8, 16] and one.allowed((8, 64), 0) is None


def test_a_size_that_inputs_takes_in_its_own_order_is_judged_by_the_arrays():
    """The size is (cols, rows) here; the arrays tell what is wrong, and the lab chooses no length."""
    turned = spec(
        inputs=lambda size, dtype, rng: {"x": np.zeros(size[::-1], dtype)}, dims={"cols": "multiple of 8"},
        sizes={"small": (64, 7)}, edges=((8, 1),),
    )  # fmt: skip
    assert turned.make((8, 3), dtype("float32"))["x"].shape == (3, 8)
    assert turned.allowed((8, 3), 1) is None
    with pytest.raises(SpecError, match=r"inputs returns arrays of shapes that do not fit, x .3, 12.: cols is 12"):
        turned.make((12, 3), dtype("float32"))
