"""What to type to install what is missing, however cudalab was installed."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from tables import table

from cudalab.base import advice, uv_receipt

WHEEL = json.dumps({"url": "file:///tmp/cudalab.whl", "archive_info": {}})
CHECKOUT = json.dumps({"url": "file:///home/me/cudalab", "dir_info": {"editable": True}})
PULL = "git pull in the checkout"


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
    def said(found, file="", text=""):
        monkeypatch.setattr(sys, "prefix", str(tmp_path))
        monkeypatch.setattr(advice.shutil, "which", lambda name: str(Path(sys.executable).parent / name))
        monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path))  # it is active
        monkeypatch.setattr(advice, "distribution", lambda name: found)
        if file:
            (tmp_path / file).write_text(text)
        advice.way.cache_clear()

    yield said
    advice.way.cache_clear()


URLS = {"checkout": CHECKOUT, "wheel": WHEEL, "": None}


@pytest.mark.parametrize(("url", "installer", "file", "extra", "package", "upgrade"), table("advice", "ways"))
def test_each_way_has_its_command(way, url, installer, file, extra, package, upgrade):
    way(Installed(URLS[url], installer or None), file)
    assert (advice.extra("report"), advice.packages("pandas"), advice.upgrade()) == (extra, package, upgrade)


def test_an_environment_that_is_not_active_is_named(way, monkeypatch, tmp_path):
    """The pip that is first on PATH, and uv, would install into another one."""
    way(Installed())
    monkeypatch.setattr(advice.shutil, "which", lambda name: "/usr/bin/pip")
    pip = f"{shlex.quote(sys.executable)} -m pip install"
    assert advice.extra("report") == f"{pip} 'cudalab[report]'"
    assert (advice.packages("pandas"), advice.upgrade()) == (f"{pip} pandas", f"{pip} -U cudalab")
    way(Installed(CHECKOUT))
    monkeypatch.setattr(advice.shutil, "which", lambda name: None)
    assert advice.extra("report") == f"{pip} -e '.[report]' in the checkout"
    way(Installed(installer="uv"))
    for active in (None, "/elsewhere"):
        monkeypatch.setenv("VIRTUAL_ENV", active) if active else monkeypatch.delenv("VIRTUAL_ENV")
        assert advice.extra("report") == f"uv pip install --python {tmp_path} 'cudalab[report]'"


def test_an_environment_without_pip_is_one_of_uv_and_source_that_is_not_installed_a_checkout(way, monkeypatch):
    def absent(name):
        raise advice.PackageNotFoundError

    way(Installed(), "pipx_metadata.json")
    assert advice.extra("dev") == "pipx inject cudalab import-linter"  # for some versions of Python
    (Path(sys.prefix) / "pipx_metadata.json").unlink()
    way(None)
    monkeypatch.setattr(advice, "distribution", absent)
    assert advice.extra("torch") == "pip install -e '.[torch]' in the checkout"
    way(Installed(CHECKOUT))
    monkeypatch.setattr(advice, "find_spec", lambda name: None)
    assert advice.extra("report") == "uv pip install -e '.[report]' in the checkout"


@pytest.fixture
def uv_tool(way):
    """A function that makes this the environment of `uv tool install` with a receipt."""
    return lambda receipt: way(Installed(installer="uv"), uv_receipt.NAME, receipt)


def receipt(*requirements, more=""):
    return f"[tool]\nrequirements = [\n{''.join(f'    {one},{chr(10)}' for one in requirements)}]\n{more}"


FROM_FILE = '{ name = "cudalab", extras = ["report"], path = "/tmp/cudalab.whl" }'
needs_tomllib = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 cannot read uv's receipt")


@needs_tomllib
def test_a_tool_of_uv_keeps_what_it_has(uv_tool):
    """`uv tool install` removes what it does not name: a second hint repeats what the first one added."""
    uv_tool(receipt(FROM_FILE))
    assert advice.packages("pandas") == ("uv tool install --with pandas 'cudalab[report] @ file:///tmp/cudalab.whl'")
    uv_tool(receipt(FROM_FILE, '{ name = "pandas" }', more='python = "3.12"\n'))
    assert advice.extra("torch") == (
        "uv tool install --python 3.12 --with pandas 'cudalab[report,torch] @ file:///tmp/cudalab.whl'"
    )
    assert advice.upgrade() == "uv tool upgrade cudalab"


@needs_tomllib
@pytest.mark.parametrize(("kept", "typed"), table("advice", "what the receipt of uv has, and what is typed"))
def test_each_requirement_of_a_tool_of_uv_is_repeated(uv_tool, kept, typed):
    uv_tool(receipt(kept, '{ name = "cudalab" }', more='[tool.options]\nfind-links = ["/x"]\n'))
    assert advice.packages("pandas") == f"uv tool install --find-links /x {typed} --with pandas cudalab"


@pytest.mark.parametrize("kept", [
    None, " ", "[tool", "[tool]\nrequirements = 1",
    receipt('{ name = "other" }'), receipt('{ name = "cudalab", new = 1 }'),
    receipt('{ name = "cudalab" }', more="constraints = [1]\n"),
    receipt('{ name = "cudalab" }', more='[tool.options]\nindex = [{ url = "https://a.b" }]\n'),
])  # fmt: skip
def test_a_receipt_that_is_not_understood_gives_a_hint_that_removes_nothing(uv_tool, tmp_path, kept):
    uv_tool(kept or receipt(FROM_FILE))
    assert advice.way() == advice.UV_TOOL
    if kept is None:  # it is gone
        (tmp_path / uv_receipt.NAME).unlink()
    assert advice.packages("pandas") == f"uv pip install --python {tmp_path} pandas"
    assert advice.extra("report") == f"uv pip install --python {tmp_path} altair jinja2"


def test_no_message_writes_such_a_command_itself():
    """`advice` is the one place that knows how cudalab was installed."""
    sources = Path(advice.__file__).parents[1].rglob("*.py")
    found = [str(p) for p in sources if p.name != "advice.py" and re.search(r"pip install\b(?!s)", p.read_text())]
    assert not found
