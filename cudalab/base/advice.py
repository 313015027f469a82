"""How cudalab is installed, and so what to type to add what is missing."""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

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
    for file, tool in (("pipx_metadata.json", PIPX), ("uv-receipt.toml", UV_TOOL)):
        if Path(sys.prefix, file).exists():
            return tool
    installer = found.read_text("INSTALLER")
    if installer is None:  # what a build left beside the source, which is found first in its folder
        return CHECKOUT
    return UV if installer.strip() == "uv" else PIP


def extra(name: str) -> str:
    """What to type to install an extra, such as "torch"."""
    commands = {
        CHECKOUT: f"pip install -e '.[{name}]' in the checkout",
        UV: f"uv pip install '{NAME}[{name}]'",
        PIP: f"pip install '{NAME}[{name}]'",
    }
    return commands[way()] if way() in commands else packages(*_asked_for(name))


def packages(*names: str) -> str:
    """What to type to install other packages beside cudalab."""
    if way() == PIPX:
        return f"pipx inject {NAME} {' '.join(names)}"
    if way() == UV_TOOL:
        return f"uv tool install --with {','.join(names)} {NAME}"
    return f"{'uv ' if way() == UV else ''}pip install {' '.join(names)}"


def upgrade() -> str:
    """What to type for a newer cudalab."""
    return {
        CHECKOUT: "git pull in the checkout",
        PIPX: f"pipx upgrade {NAME}",
        UV_TOOL: f"uv tool upgrade {NAME}",
        UV: f"uv pip install -U {NAME}",
        PIP: f"pip install -U {NAME}",
    }[way()]


def _asked_for(name: str) -> list[str]:
    """The names of the packages that an extra asks for."""
    found: Distribution = distribution(NAME)
    marked = (line.partition(";") for line in found.requires or ())
    held = (need for need, _, marker in marked if re.search(rf"extra == ['\"]{re.escape(name)}['\"]", marker))
    return [re.split(r"[^\w.-]", need.strip(), maxsplit=1)[0] for need in held]
