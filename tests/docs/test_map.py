"""docs/develop.md has a map of cudalab/: it is complete, and names nothing that is gone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| `(cudalab/[\w/]*)` \|(.*)\|$", re.MULTILINE)
# Their files are one of a kind and found by name: the row of the folder says what they are.
FOUND_BY_NAME = {"cudalab/backends", "cudalab/cli/commands", "cudalab/studies"}

rows = {name.rstrip("/"): text for name, text in ROW.findall((ROOT / "docs" / "develop.md").read_text())}
packages = sorted(str(p.parent.relative_to(ROOT)) for p in (ROOT / "cudalab").rglob("__init__.py"))


@pytest.mark.parametrize("package", packages[1:])
def test_a_package_and_its_modules_are_on_the_map(package):
    assert package in rows, f"docs/develop.md: add a row for `{package}/`"
    names = {p.stem for p in (ROOT / package).glob("*.py")} - {"__init__", "__main__"}
    known = set(re.findall(r"`(\w+)(?:\.py)?`", rows[package]))
    if package in FOUND_BY_NAME:
        names = {n for n in names if n.startswith("_")}
    assert names <= known, f"docs/develop.md, `{package}/`: say what these are: {', '.join(sorted(names - known))}"


def test_the_map_names_nothing_that_is_gone():
    for name, text in rows.items():
        assert (ROOT / name).is_dir(), f"docs/develop.md: `{name}/` is gone"
        here = {p.stem for p in (ROOT / name).iterdir()}
        listed = set(re.findall(r"`([a-z]\w*)`(?= \(|,|:|;| and|$)", text))
        assert listed <= here, f"docs/develop.md, `{name}/`: not there: {', '.join(sorted(listed - here))}"


def test_few_names_stand_at_the_top():
    names = [p.name for p in (ROOT / "cudalab").iterdir() if p.name != "__pycache__"]
    assert len(names) <= 20, sorted(names)
