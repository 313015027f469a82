"""What a spec says of its arrays as a whole: mistakes in shapes are refused when it is loaded, and in calls."""

from __future__ import annotations

import re

import pytest

from cudalab import Budget, In, Kernel, Launch, Work
from cudalab.base.errors import InputError, SpecError


def spec(**more):
    fields = {
        "file": "k.py", "summary": "k", "dtypes": ("float32",), "sizes": {"small": (8, 64)}, "edges": ((1, 1),),
        "shapes": {"x": "rows cols"}, "reference": lambda x: x, "budgets": Budget(0),
        "entries": {"k": lambda **arrays: Launch((1,), (1,), ())},
    }  # fmt: skip
    return Kernel(**fields | more)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"shapes": {"x": "rows cols//2"}}, "shapes: x is 'rows cols//2', and the length of 'cols//2' does not tell c"),
        ({"shapes": {"x": "rows cols", "y": "row"}}, "shapes: y: 'row' names row, which no input defines"),
        ({"workspace": {"w": Work()}, "shapes": {"x": "a b", "w": "n"}}, "shapes: w: 'n' names n, which no input"),
        ({"inputs": {"x": In("int32", 0, "words")}}, "inputs: x: 'words' names words, which no input defines"),
        ({"shapes": {"x": "n-1 m"}, "edges": ((0, 3),)}, "an edge, (0, 3): shapes: 'n-1' is -1 where n = 0"),
        ({"shapes": {"x": "n m", "y": "n-m"}}, "size 'small', (8, 64): shapes: 'n-m' is -56 where n = 8 and m = 64"),
    ],
)
def test_shapes_that_make_no_sense_are_refused_when_the_spec_is_loaded(more, said):
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
