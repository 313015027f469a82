"""How cudalab is installed, and so what to type to add what is missing."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from cudalab.base import uv_receipt

NAME = "cudalab"
CHECKOUT, PIPX, UV_TOOL, UV, PIP = "checkout", "pipx", "uv tool", "uv", "pip"


@cache
def way() -> str:
    """How cudalab was installed: CHECKOUT (editable, or run from its source), PIPX, UV_TOOL, UV or PIP."""
    try:
        found = distribution(NAME)
    except PackageNotFoundError:  # run from its source
        return CHECKOUT
    if (json.loads(found.read_text("direct_url.json") or "{}").get("dir_info") or {}).get("editable"):
        return CHECKOUT
    for file, tool in (("pipx_metadata.json", PIPX), (uv_receipt.NAME, UV_TOOL)):
        if Path(sys.prefix, file).exists():
            return tool
    installer = found.read_text("INSTALLER")
    if installer is None:  # what a build left beside the source, which is found first in its folder
        return CHECKOUT
    return UV if installer.strip() == "uv" else PIP


def extra(name: str) -> str:
    """Return what to type to install an extra, such as "torch"."""
    if way() == UV_TOOL:
        return _uv_tool(_asked_for(name), extras=[name])
    if way() == PIPX:
        return packages(*_asked_for(name))
    return f"{_install()} -e '.[{name}]' in the checkout" if way() == CHECKOUT else f"{_install()} '{NAME}[{name}]'"


def packages(*names: str) -> str:
    """Return what to type to install other packages beside cudalab."""
    if way() == PIPX:
        return f"pipx inject {NAME} {' '.join(names)}"
    if way() == UV_TOOL:
        return _uv_tool(names)
    return f"{_install()} {' '.join(names)}"


def upgrade() -> str:
    """Return what to type for a newer cudalab."""
    named = {
        CHECKOUT: "git pull in the checkout", PIPX: f"pipx upgrade {NAME}", UV_TOOL: f"uv tool upgrade {NAME}"
    }  # fmt: skip
    return named.get(way()) or f"{_install()} -U {NAME}"


def installer() -> list[str]:
    """The command that installs packages into this environment, for a program to run; options and names follow."""
    if way() in (UV, UV_TOOL) or not find_spec("pip"):
        return ["uv", "pip", "install", "--python", sys.executable]
    return [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]


def _install() -> str:
    """The command that installs into this environment; it names the environment where another one is active."""
    if way() == UV or not find_spec("pip"):
        active = os.environ.get("VIRTUAL_ENV", "")
        here = bool(active) and os.path.realpath(active) == os.path.realpath(sys.prefix)
        return "uv pip install" if here else f"uv pip install --python {shlex.quote(sys.prefix)}"
    first = shutil.which("pip")
    if first and Path(first).parent == Path(sys.executable).parent:
        return "pip install"
    return f"{shlex.quote(sys.executable)} -m pip install"


def _uv_tool(packages: Sequence[str], extras: Sequence[str] = ()) -> str:
    """What to type for an extra, or else packages, in the environment of `uv tool install`, beside what it has.

    Without a receipt that says what it has, this is a command that adds to the environment and removes nothing.
    """
    more = {"extras": extras} if extras else {"packages": packages}
    found = uv_receipt.again(Path(sys.prefix, uv_receipt.NAME), NAME, **more)
    return found or shlex.join(["uv", "pip", "install", "--python", sys.prefix, *packages])


def _asked_for(name: str) -> list[str]:
    """The names of the packages that an extra asks for."""
    found: Distribution = distribution(NAME)
    marked = (line.partition(";") for line in found.requires or ())
    held = (need for need, _, marker in marked if re.search(rf"extra == ['\"]{re.escape(name)}['\"]", marker))
    return [re.split(r"[^\w.-]", need.strip(), maxsplit=1)[0] for need in held]
