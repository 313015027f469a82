"""The texts that a user can see are found in the source, so that new ones can be read before they are committed."""

from __future__ import annotations

from ast import literal_eval
from pathlib import Path

import pytest
from messages import READERS, has_words, of_c, of_python, of_script, of_template, reader
from tables import table

HEADERS = Path(__file__).parents[2] / "cudalab" / "host" / "include"


@pytest.mark.parametrize(("source", "found"), table("pages", "texts", str, literal_eval))
def test_words_of_python_are_found(source, found):
    assert list(of_python(source)) == found


def test_words_of_other_languages_are_found():
    assert list(of_c('fail("no memory left", n); // "not this one"\n#include "a b.h"')) == ["no memory left"]
    assert list(of_script("say(`${n} of many rows`); // 'not this'")) == ["{} of many rows"]
    assert list(of_template("<p>Nothing was run{% if x %} at all{% endif %}</p>")) == ["Nothing was run at all"]
    assert set(READERS) == {".py", ".h", ".cuh", ".js", ".j2"}
    assert reader(HEADERS / "cuda" / "atomic") is of_c and reader(HEADERS / "cuda") is None


@pytest.mark.parametrize(
    ("text", "words"), [("give a name", True), ("name", False), ("a.b.c", False), ("import os and sys", False)]
)
def test_what_counts_as_words(text, words):
    assert has_words(text) == words
