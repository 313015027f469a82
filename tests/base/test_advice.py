"""What to type to install what is missing, however cudalab was installed."""

from __future__ import annotations

import json
import re
import sys

import pytest

from cudalab.base import advice

WHEEL = json.dumps({"url": "file:///tmp/cudalab.whl", "archive_info": {}})
CHECKOUT = json.dumps({"url": "file:///home/me/cudalab", "dir_info": {"editable": True}})


class Installed:
    def __init__(self, url=WHEEL, installer="pip\n"):
        self.texts = {"direct_url.json": url, "INSTALLER": installer}
        self.requires = [
            "numpy>=1.26", 'torch>=2.5; extra == "torch"', 'altair>=5.5; extra == "report"',
            'jinja2>=3.1; extra == "report"', 'altair>=5.5; extra == "test"',
            'import-linter>=2.4; python_version >= "3.11" and extra == "dev"',
        ]  # fmt: skip

    def read_text(self, name):
        return self.texts.get(name)


@pytest.fixture
def way(monkeypatch, tmp_path):
    def said(found, file=""):
        monkeypatch.setattr(sys, "prefix", str(tmp_path))
        monkeypatch.setattr(advice, "distribution", lambda name: found)
        if file:
            (tmp_path / file).write_text("")
        advice.way.cache_clear()

    yield said
    advice.way.cache_clear()


@pytest.mark.parametrize(("found", "file", "extra", "packages", "upgrade"), [
    (Installed(CHECKOUT), "", "pip install -e '.[report]' in the checkout", "pip install pandas",
     "git pull in the checkout"),
    (Installed(None, installer=None), "", "pip install -e '.[report]' in the checkout", "pip install pandas",
     "git pull in the checkout"),
    (Installed(), "", "pip install 'cudalab[report]'", "pip install pandas", "pip install -U cudalab"),
    (Installed(None), "", "pip install 'cudalab[report]'", "pip install pandas", "pip install -U cudalab"),
    (Installed(installer="uv"), "", "uv pip install 'cudalab[report]'", "uv pip install pandas",
     "uv pip install -U cudalab"),
    (Installed(installer="uv"), "pipx_metadata.json", "pipx inject cudalab altair jinja2",
     "pipx inject cudalab pandas", "pipx upgrade cudalab"),
    (Installed(installer="uv"), "uv-receipt.toml", "uv tool install --with altair,jinja2 cudalab",
     "uv tool install --with pandas cudalab", "uv tool upgrade cudalab"),
])  # fmt: skip
def test_each_way_has_its_command(way, found, file, extra, packages, upgrade):
    way(found, file)
    assert (advice.extra("report"), advice.packages("pandas"), advice.upgrade()) == (extra, packages, upgrade)


def test_a_package_for_some_versions_of_python_is_found(way):
    way(Installed(), "pipx_metadata.json")
    assert advice.extra("dev") == "pipx inject cudalab import-linter"


def test_source_that_is_not_installed_is_a_checkout(monkeypatch, way):
    def absent(name):
        raise advice.PackageNotFoundError

    way(None)
    monkeypatch.setattr(advice, "distribution", absent)
    assert advice.extra("torch") == "pip install -e '.[torch]' in the checkout"


def test_no_message_writes_such_a_command_itself():
    """`advice` is the one place that knows how cudalab was installed."""
    from pathlib import Path

    sources = Path(advice.__file__).parents[1].rglob("*.py")
    found = [str(p) for p in sources if p.name != "advice.py" and re.search(r"pip install\b(?!s)", p.read_text())]
    assert not found
