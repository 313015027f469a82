"""Every text that a user can see stands in a list, so that a new one is read before it is committed."""

from __future__ import annotations

import pytest
from messages import LIST, READERS, has_words, listed, of_c, of_python, of_script, of_template, reader

HEADERS = LIST.parents[2] / "cudalab" / "host" / "include"
HOW = "read the new lines as a user, then write the list: python tests/support/messages.py"


def test_every_message_has_been_looked_at():
    kept, now = LIST.read_text(encoding="utf-8").splitlines(), listed().splitlines()
    new, gone = [line for line in now if line not in kept], [line for line in kept if line not in now]
    assert now == kept, "\n".join([HOW, *(f"+ {line}" for line in new), *(f"- {line}" for line in gone)])


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('raise E(f"no file {path} here; give another")', ["no file {} here; give another"]),
        ('x = "two" + " words and " + name', ["two words and {}"]),
        ('f("key"); g("a-b.c"); h("%s %d")', []),
        ('def f():\n    """Says what it does."""\n    return "what it returns"', ["what it returns"]),
        ('@click.command("x")\ndef f():\n    """Says what it does."""', ["Says what it does."]),
        ("f\"{g('inner words here')} outer words\"", ["{} outer words", "inner words here"]),
    ],
)
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
