"""The folders of tests/ mirror the packages of cudalab/."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS, PACKAGES = ROOT / "tests", ROOT / "cudalab"
OTHER = {"cheats", "docs", "fake_gpu", "fuzz", "kernels", "package"}  # their tests cover more than one package, or none
FILES = sorted(TESTS.rglob("test_*.py"))


def test_each_folder_has_the_name_of_a_package():
    folders = {path.parent.relative_to(TESTS) for path in FILES} - {Path(name) for name in {"", *OTHER}}
    assert not [str(f) for f in sorted(folders) if not (PACKAGES / f / "__init__.py").is_file()]


def test_each_file_outside_a_folder_has_the_name_of_a_module():
    names = [path.name.removeprefix("test_") for path in FILES if path.parent == TESTS]
    assert not [name for name in names if not (PACKAGES / name).is_file()]


def test_modules_that_tests_share_are_in_support():
    """Elsewhere a file is a test or a conftest.py; data/ and fake_gpu/ hold programs that tests run."""
    folders = {path.parent for path in FILES if path.relative_to(TESTS).parts[0] != "fake_gpu"}
    strays = [path for folder in folders for path in folder.glob("*.py") if path not in FILES]
    assert not [str(path.relative_to(TESTS)) for path in strays if path.name != "conftest.py"]
