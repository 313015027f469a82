"""Labels with commas, spaces, brackets and colons."""

from __future__ import annotations

import pytest

from cudalab.base import globs


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a, b ,,c", ("a", "b", "c")),
        ("pycuda:row_sum<64, float>,host", ("pycuda:row_sum<64, float>", "host")),
        ("k(float*, int),ns::k", ("k(float*, int)", "ns::k")),
        ("a<1,b", ("a<1", "b")),  # a glob with one bracket
    ],
)
def test_a_comma_within_brackets_is_part_of_a_word(text, words):
    assert globs.split(text) == words


@pytest.mark.parametrize(
    ("glob", "halves"),
    [
        ("pycuda:k", ("pycuda", "k")),
        ("ns::k", ("", "ns::k")),
        ("host:ns::k<2>", ("host", "ns::k<2>")),
        ("k", ("", "k")),
    ],
)
def test_a_double_colon_does_not_end_a_backend(glob, halves):
    assert globs.halves(glob) == halves


def test_a_name_fits_itself_whatever_its_characters():
    label = "pycuda:k<int[4], ns::T>"
    assert globs.fits(label, [label]) and globs.fits(label, ["k<int[4], ns::T>"]) and globs.fits(label, ["k<*"])
    assert not globs.fits(label, ["ns::T"])
