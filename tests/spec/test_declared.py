"""What a spec says of its arrays as a whole: mistakes in shapes are refused when it is loaded, and in calls."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import specs

from cudalab import Budget, In, Out, Scalar, Work
from cudalab.base.errors import InputError, SpecError
from cudalab.spec.dtype import dtype

NAMES = {"Budget": Budget, "In": In, "Out": Out, "Scalar": Scalar, "Work": Work}


def spec(**more):
    fields = {"sizes": {"small": (8, 64)}, "edges": ((1, 1),), "shapes": {"x": "rows cols"}}
    return specs.spec(Path(), **fields | more)


@pytest.mark.parametrize(("common", "fields", "said"), specs.refusals("refused.txt"))
def test_what_makes_no_sense_is_refused_when_the_spec_is_loaded(common, fields, said):
    with pytest.raises(SpecError, match=specs.dotted(said)):
        spec(**{"shapes": {}} | eval(f"dict({common})", NAMES) | eval(f"dict({fields})", NAMES))


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
