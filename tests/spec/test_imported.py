"""What a spec imports of the user's files is part of its source."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from cudalab.base.errors import SpecError
from cudalab.engine.groups import Group
from cudalab.spec import cuda_source, find, imported, neighbours
from cudalab.spec.dtype import dtype

SPEC = """import numpy as np
import json, numpy.linalg
from cudalab import Budget, Kernel, Launch
from {name} import VALUE
from {name}.deep import more

one = Kernel(file=__file__, summary="", dtypes=("float32",), sizes={{"small": (9,)}}, edges=(), budgets=Budget(1),
             reference=lambda x: x + VALUE, entries={{"one": lambda x, y: Launch((1,), (32,), (x, y, np.int32(9)))}})
"""


@pytest.fixture
def spec(tmp_path):
    name = f"helper_{abs(hash(str(tmp_path)))}"
    package = tmp_path / name
    package.mkdir()
    (package / "__init__.py").write_text("VALUE = 1\n")
    (package / "deep.py").write_text(f"def more():\n    from {name} import later\n")
    (package / "later.py").write_text("")
    (tmp_path / "one.cu").write_text("__global__ void one(const float* x, float* y, int n) {}")
    (tmp_path / "one.py").write_text(SPEC.format(name=name))
    return name, find.kernel(str(tmp_path / "one.py"))


def test_the_users_modules_are_found_and_no_others(spec, tmp_path):
    name, kernel = spec
    found = imported.files(Path(kernel.file))
    assert found == {name: tmp_path / name / "__init__.py", f"{name}.deep": tmp_path / name / "deep.py"}
    __import__(f"{name}.later")  # an import inside a function counts once it was made
    assert f"{name}.later" in imported.files(Path(kernel.file))
    assert imported.files(Path(find.kernel("gelu").file)) == {}
    assert {*imported.on_disk(Path(kernel.file))} > {*found.values()}  # watched, also what is not imported yet


def test_a_package_that_a_link_installs_is_none_of_the_users_files(spec, tmp_path, monkeypatch):
    name, kernel = spec
    place = tmp_path / "site-packages"
    place.mkdir()
    (place / name).symlink_to(tmp_path / name)
    monkeypatch.syspath_prepend(str(place))
    neighbours._installed.cache_clear()
    monkeypatch.setattr(sys.modules[name], "__file__", str(place / name / "__init__.py"))
    assert name not in imported.files(Path(kernel.file))
    neighbours._installed.cache_clear()


def test_a_change_of_what_a_spec_imports_changes_its_sources(spec, tmp_path):
    """Else a run that is resumed would mix rows of two specs."""
    name, kernel = spec
    files = Group(kernel, "small", (9,), dtype("float32")).files
    assert set(files) == {"one.cu", "one.py", f"one.import.{name}.py", f"one.import.{name}.deep.py"}
    before = cuda_source.digest(files[f"one.import.{name}.py"])
    (tmp_path / name / "__init__.py").write_text("VALUE = 2\n")
    assert cuda_source.digest(files[f"one.import.{name}.py"]) != before


def test_each_folder_has_its_own_modules_and_none_hides_an_installed_one(tmp_path, monkeypatch):
    """Whenever a statement imports them: while a spec is loaded, and in a function that is called later."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    (tmp_path / "helper_of_specs.py").write_text("HERE = 'the current folder'\n")
    there = importlib.import_module("helper_of_specs")
    for name in ("a", "b"):
        (tmp_path / name / "pack_of_specs").mkdir(parents=True)
        (tmp_path / name / "helper_of_specs.py").write_text(f"from pack_of_specs.deep import NAME\nHERE = '{name}'\n")
        (tmp_path / name / "pack_of_specs" / "deep.py").write_text(f"import pack_of_specs\nNAME = {name!r}\n")
        (tmp_path / name / "msgspec.py").write_text("raise RuntimeError('this hides an installed module')\n")
        (tmp_path / name / "one.py").write_text(
            "import msgspec\nfrom helper_of_specs import HERE, NAME\n"
            "def later():\n    import helper_of_specs\n    from pack_of_specs import deep\n"
            "    return helper_of_specs.HERE + deep.NAME\n"
        )
    a, b = (find.loaded(tmp_path / name / "one.py") for name in "ab")
    assert [a.HERE + a.NAME, b.HERE + b.NAME] == [a.later(), b.later()] == ["aa", "bb"] == [a.later(), b.later()]
    files = {name: imported.files(tmp_path / name / "one.py")["helper_of_specs"].parent.name for name in "ab"}
    assert files == {"a": "a", "b": "b"}
    assert importlib.import_module("helper_of_specs") is there  # for all other files


def test_a_module_beside_a_spec_that_fails_says_why(tmp_path):
    (tmp_path / "broken_helper.py").write_text("1 / 0")
    (tmp_path / "one.py").write_text("from broken_helper import VALUE\n")
    with pytest.raises(SpecError, match=r"division by zero \(one.py, line 1\)"):
        find.loaded(tmp_path / "one.py")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("broken_helper")


def test_a_file_that_cannot_be_read_as_python_imports_nothing(tmp_path):
    (tmp_path / "broken.py").write_text("import (")
    assert imported.files(tmp_path / "broken.py") == imported.files(tmp_path / "none.py") == {}
