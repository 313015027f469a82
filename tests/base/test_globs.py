"""Labels with commas, spaces, brackets and colons."""

from __future__ import annotations

from ast import literal_eval

import pytest
from tables import table

from cudalab.base import globs


@pytest.mark.parametrize(("text", "words"), table("globs", "words", str, literal_eval))
def test_a_comma_within_brackets_is_part_of_a_word(text, words):
    assert globs.split(text) == words


@pytest.mark.parametrize(("glob", "halves"), table("globs", "halves", str, literal_eval))
def test_a_double_colon_does_not_end_a_backend(glob, halves):
    assert globs.halves(glob) == halves


def test_a_name_fits_itself_whatever_its_characters():
    label = "pycuda:k<int[4], ns::T>"
    assert globs.fits(label, [label]) and globs.fits(label, ["k<int[4], ns::T>"]) and globs.fits(label, ["k<*"])
    assert not globs.fits(label, ["ns::T"])
