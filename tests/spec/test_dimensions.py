"""Shapes by named dimensions: what sizes and arrays give to the names, and what does not fit."""

from __future__ import annotations

import pytest

from cudalab.base.errors import InputError, SpecError
from cudalab.spec import dimensions


@pytest.mark.parametrize(
    ("shapes", "size", "want"),
    [
        (["m k", "k n"], (5, 3, 4), {"m": (5,), "k": (3,), "n": (4,)}),
        (["... cols", "cols"], (2, 7, 4), {"...": (2, 7), "cols": (4,)}),
        (["... cols"], (4,), {"...": (), "cols": (4,)}),
        (["rows 2*half", "half"], (3, 8), {"rows": (3,), "half": (8,)}),
        (["n", ""], (9,), {"n": (9,)}),
    ],
)
def test_a_size_gives_the_names_their_lengths_in_the_order_of_their_first_use(shapes, size, want):
    assert dimensions.of_size(shapes, size) == want


@pytest.mark.parametrize(
    ("given", "lengths", "want"),
    [
        ("rows cols", {"rows": (3,), "cols": (4,)}, (3, 4)),
        ("... 1", {"...": (2, 7)}, (2, 7, 1)),
        ("(n+255)//256 2*n-1", {"n": (257,)}, (2, 513)),
        ("", {}, ()),
    ],
)
def test_words_with_lengths_are_a_shape(given, lengths, want):
    assert dimensions.fits(given)
    assert dimensions.shape_of(given, lengths) == want


@pytest.mark.parametrize("given", ["rows ...", "a b()", "__import__('os')", "1.5", "a**b", "x y[0]", 7, None, "a;b"])
def test_what_is_no_shape_is_refused(given):
    assert not dimensions.fits(given)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": (8, 6), "w": (3,)}, "cols is 6 in x and 3 in w"),
        ({"x": (6,), "w": (6,)}, "x is 'rows cols', 2 dimensions; it has the shape"),
        ({"x": (8, 6), "w": (6,), "h": (6,)}, r"h is 'cols//2', here \(3,\); it has the shape \(6,\)"),
        ({"b": (2, 3, 4), "c": (2, 5, 4)}, r"\.\.\. is \(2, 3\) in b and \(2, 5\) in c"),
    ],
)
def test_arrays_that_contradict_each_other_are_named(arrays, message):
    shapes = {"x": "rows cols", "w": "cols", "h": "cols//2", "b": "... n", "c": "... n"}
    with pytest.raises(InputError, match=message):
        dimensions.of_arrays(shapes, arrays)


def test_a_name_that_no_input_has_is_named():
    with pytest.raises(SpecError, match="'rows' names rows, which no input has"):
        dimensions.shape_of("rows", {"cols": (4,)})


@pytest.mark.parametrize("size", [(5,), (5, 3, 4), ()])
def test_a_size_of_another_length_is_refused(size):
    with pytest.raises(InputError, match=r"sizes of 2 dimensions, got .*; they are rows cols"):
        dimensions.of_size(["rows cols"], size)
