"""Places of a spec that only its author can fill in."""

from __future__ import annotations

import pytest

from cudalab import todo
from cudalab.base.errors import SpecError
from cudalab.spec import unfilled


def test_a_place_has_no_value():
    with pytest.raises(SpecError, match="fill in the grid: a todo"):
        todo("the grid")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("from cudalab import todo\nx = lambda: (\n    todo('a'), todo('b'))\n", "spec.py:3: fill in a; b"),
        ("from cudalab import todo as later\nlater(what)\n", "spec.py:2: fill in what"),
        ("def todo(what): ...\ntodo('mine')  # TODO\n", ""),
        ("from cudalab import Kernel  # TODO: todo\n", ""),
        ("from cudalab import todo\n(\n", ""),
    ],
)
def test_calls_of_the_labs_todo_are_found_by_their_lines(tmp_path, text, named):
    spec = tmp_path / "spec.py"
    spec.write_text(text)
    said = ""
    try:
        unfilled.refuse(spec)
    except SpecError as error:
        said = str(error)
    assert said == (f"{tmp_path}/{named}" if named else "")
