"""Shapes by named dimensions: what sizes and arrays give to the names, and what does not fit."""

from __future__ import annotations

import re

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
        ({"x": (6,), "w": (6,)}, "x must have 2 dimensions .'rows cols'., got the shape"),
        (
            {"x": (8, 6), "w": (6,), "h": (6,)},
            r"shapes declares h as 'cols//2', which is \(3,\) here, but the array's shape is \(6,\)",
        ),
        ({"b": (2, 3, 4), "c": (2, 5, 4)}, r"\.\.\. is \(2, 3\) in b and \(2, 5\) in c"),
    ],
)
def test_arrays_that_contradict_each_other_are_named(arrays, message):
    shapes = {"x": "rows cols", "w": "cols", "h": "cols//2", "b": "... n", "c": "... n"}
    with pytest.raises(InputError, match=message):
        dimensions.of_arrays(shapes, arrays)


@pytest.mark.parametrize(
    ("shapes", "arrays", "want"),
    [
        ({"values": "n", "offsets": "segments+1"}, {"values": (9,), "offsets": (5,)}, {"n": (9,), "segments": (4,)}),
        ({"x": "rows 2*half", "w": "half"}, {"x": (3, 8), "w": (4,)}, {"rows": (3,), "half": (4,)}),
        ({"x": "... 2*half"}, {"x": (3, 8)}, {"...": (3,), "half": (4,)}),
        ({"w": "rows*k", "x": "rows k-1"}, {"w": (12,), "x": (3, 3)}, {"rows": (3,), "k": (4,)}),
        ({"x": "100-n"}, {"x": (58,)}, {"n": (42,)}),
        ({"x": "rows 8*packs"}, {"x": (3, 16)}, {"rows": (3,), "packs": (2,)}),
        ({"a": "n+m", "b": "m-1"}, {"a": (9,), "b": (3,)}, {"n": (5,), "m": (4,)}),  # m first, then n
    ],
)
def test_a_name_follows_from_the_length_of_a_sum_or_a_product(shapes, arrays, want):
    assert dimensions.of_arrays(shapes, arrays) == want


@pytest.mark.parametrize(("given", "shape"), [("2*half", (7,)), ("segments+1", (0,)), ("3-n", (4,))])
def test_a_length_that_no_name_gives_is_refused(given, shape):
    with pytest.raises(InputError, match=r"no value of (half|segments|n) makes its shapes= entry '.*' that shape$"):
        dimensions.of_arrays({"x": given}, {"x": shape})


@pytest.mark.parametrize(
    ("shapes", "word", "name"),
    [({"x": "rows cols//2"}, "cols//2", "cols"), ({"x": "n*n"}, "n\\*n", "n"), ({"x": "a+b"}, "a\\+b", "a or b"),
     ({"x": "a+b", "w": "b+a"}, "a\\+b", "a or b"), ({"x": "n-n"}, "n-n", "n")],
)  # fmt: skip
def test_a_length_that_does_not_tell_its_names_is_refused_with_what_to_write(shapes, word, name):
    said = f"the length of '{word}' does not tell {name}, .* such as '.*m'.* another input \\w+ as a dim"
    assert re.search(said, dimensions.untold(shapes, shapes))


@pytest.mark.parametrize(
    "shapes",
    [{"x": "rows 8*packs"}, {"starts": "s+1", "x": "n"}, {"x": "... 2*n"}, {"x": "n//2", "w": "n"}, {"x": "64"},
     {"a": "n+m", "b": "m-1"}, {"x": "rows rows*k"}, {"x": ""}],
)  # fmt: skip
def test_lengths_that_tell_all_names_are_taken(shapes):
    assert dimensions.untold(shapes, shapes) == ""


def test_what_lengths_cannot_give_is_named():
    with pytest.raises(InputError, match="'s-1' is -1 where s = 0; a length is 0 or more"):
        dimensions.shape_of("... s s-1", {"...": (2, 3), "s": (0,)})
    shapes = {"w": "rows*k", "x": "rows"}
    assert dimensions.untold(shapes, shapes) == ""
    with pytest.raises(InputError, match=r"w has the shape \(0,\), which does not tell k in its .* with elements"):
        dimensions.of_arrays(shapes, {"w": (0,), "x": (0,)})
    said = (
        r"'rows' names rows, which no input defines.* such as rows\+1 .* Scalar\(8, 'int32'\).*lambda x: \(x\[0\] - 1"
    )
    with pytest.raises(SpecError, match=said):
        dimensions.shape_of("rows", {"cols": (4,)})


@pytest.mark.parametrize("size", [(5,), (5, 3, 4), ()])
def test_a_size_of_another_length_is_refused(size):
    with pytest.raises(InputError, match=r"sizes of 2 dimensions \(rows cols\), got "):
        dimensions.of_size(["rows cols"], size)
