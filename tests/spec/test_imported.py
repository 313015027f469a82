"""What a spec imports of the user's files is part of its source."""

from __future__ import annotations

import importlib.util
import py_compile
import sys
from pathlib import Path

import pytest

from cudalab.base.errors import SpecError
from cudalab.engine.groups import Group
from cudalab.spec import cuda_source, find, imported
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
    imported._installed.cache_clear()
    monkeypatch.setattr(sys.modules[name], "__file__", str(place / name / "__init__.py"))
    assert name not in imported.files(Path(kernel.file))
    imported._installed.cache_clear()


def test_a_change_of_what_a_spec_imports_changes_its_sources(spec, tmp_path):
    """Else a run that is resumed would mix rows of two specs."""
    name, kernel = spec
    files = Group(kernel, "small", (9,), dtype("float32")).files
    assert set(files) == {"one.cu", "one.py", f"one.import.{name}.py", f"one.import.{name}.deep.py"}
    before = cuda_source.digest(files[f"one.import.{name}.py"])
    (tmp_path / name / "__init__.py").write_text("VALUE = 2\n")
    assert cuda_source.digest(files[f"one.import.{name}.py"]) != before


def test_a_module_beside_a_spec_hides_no_installed_one(tmp_path):
    (tmp_path / "msgspec.py").write_text("raise RuntimeError('this hides an installed module')\n")
    (tmp_path / "one.py").write_text("import msgspec\n")
    find.loaded(tmp_path / "one.py")


def test_a_folder_beside_a_spec_is_a_package_only_where_the_spec_imports_what_it_has(tmp_path):
    """PyTorch's compiler, which tries `import triton`, took the lab's kernels/triton/ for it."""
    for name in ("tri_ton", "one_folder", "other_folder"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "softmax.py").write_text("import other_folder.softmax" if name == "one_folder" else "")
    py_compile.compile(str(tmp_path / "tri_ton" / "softmax.py"), str(tmp_path / "compiled.pyc"))
    (tmp_path / "one.py").write_text(
        "import compiled, one_folder.softmax\ntry: import tri_ton.language\nexcept ImportError: 1"
    )
    (tmp_path / "two.py").write_text("")
    find.loaded(tmp_path / "one.py")
    find.loaded(tmp_path / "two.py")
    assert [bool(importlib.util.find_spec(name)) for name in ("tri_ton", "one_folder", "other_folder")] == [0, 1, 1]
    assert sys.path_importer_cache[str(tmp_path)].find_spec("package.tri_ton")  # the folder of a package, too
    with pytest.raises(ModuleNotFoundError, match="No module named 'tri_ton'"):
        __import__("tri_ton")


def test_modules_of_one_name_in_two_folders_are_refused(tmp_path):
    """Python knows a module by its name: the second spec would get that of the first."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "helper_of_specs.py").write_text("import common_of_specs\n")
        (tmp_path / name / "common_of_specs.py").write_text(f"NAME = {name!r}\n")
        (tmp_path / name / "one.py").write_text("from helper_of_specs import common_of_specs\n")
    assert find.loaded(tmp_path / "a" / "one.py").common_of_specs.NAME == "a"
    (tmp_path / "b" / "helper_of_specs.py").rename(tmp_path / "b" / "another_of_specs.py")
    (tmp_path / "b" / "one.py").write_text("import another_of_specs\n")
    with pytest.raises(SpecError, match=r"another_of_specs.py: `import common_of_specs` gives .*a/common.*rename one"):
        find.loaded(tmp_path / "b" / "one.py")


def test_a_file_that_cannot_be_read_as_python_imports_nothing(tmp_path):
    (tmp_path / "broken.py").write_text("import (")
    assert imported.files(tmp_path / "broken.py") == imported.files(tmp_path / "none.py") == {}
